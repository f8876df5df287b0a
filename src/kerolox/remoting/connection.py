"""One connection: splits bytes into frames, dispatches requests, and matches responses with our own calls."""

import asyncio
import itertools
import logging
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, CallTimeout, ConnectionLost, ProtocolError, SystemBusy
from kerolox.remoting.address import format_address
from kerolox.remoting.limits import Limits
from kerolox.remoting.router import Incoming, Router
from kerolox.remoting.socket_transport import SocketTransport, Watched
from kerolox.remoting.tls import TlsLayer
from kerolox.runtime.event_loop import READ_SIZE_MAX, at_end_of_turn
from kerolox.wire.command import JSON, LARGE_SIZE, ONEWAY_BIT, Answer, Command, encode
from kerolox.wire.frames import Frame, FrameReader
from kerolox.wire.header import Header, Request
from kerolox.wire.header_templates.columns import EqualHeaders
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)


class _Shared:
    """State shared by all connections of an event loop: the receive buffer, and the connections with frames to write.

    A connection copies what it has read out of the buffer before the next one reads.
    """

    __slots__ = ("buffer", "loop", "waiting")

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_SIZE_MAX))
        # Connections whose frames are written at the end of this loop iteration.
        self.waiting: list[Connection] = []
        self.loop: asyncio.AbstractEventLoop | None = None


class _Local(threading.local):
    """One `_Shared` per thread: a thread runs one event loop at a time. Each connection keeps that of its thread."""

    def __init__(self) -> None:
        self.shared = _Shared()


_local = _Local()


def flush_waiting() -> None:
    """Write the frames of all connections of this thread now, instead of at the end of the loop iteration."""
    shared = _local.shared
    waiting = shared.waiting
    if waiting:
        shared.waiting = []
        for connection in waiting:
            try:
                connection.flush()
            except Exception:
                # A failing connection must not keep the others from being written.
                log.exception("closed the connection to %s: writing failed", connection.remote)
                connection.abort()


# Starts at 1: the JavaScript client treats an opaque of 0 as missing.
_opaques = itertools.count(1)


def next_opaque() -> int:
    """Return the opaque of the next request."""
    return next(_opaques) & 0x7FFFFFFF


class Connection(Watched):
    """One end of a connection. Both peers may send requests, and responses come in any order."""

    def __init__(
        self, router: Router, limits: Limits, *, on_closed: Callable[["Connection"], None] | None = None
    ) -> None:
        self.limits = limits
        self.remote = "nobody"
        self._loop = asyncio.get_running_loop()
        self._shared = _local.shared
        self.closed: asyncio.Future[None] = self._loop.create_future()
        # Set with every byte in or out, and cleared by the idle check.
        self.is_active = True
        self.frames_received = 0
        self._router = router
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._tls: TlsLayer | None = None
        self._handshake: asyncio.Future[None] | None = None
        # Why we closed the connection. Only the text: an exception would refer to the connection by its traceback.
        self._refusal = ""
        self._reader = FrameReader(limits.frame_size_max, limits.header_size_max)
        # The reader's `partial_size` when it was last reported to the bound on incomplete frames.
        self._counted_size = 0
        # Functions, not bound methods: a connection that refers to itself is freed only by the garbage collector,
        # which runs rarely in a server (runtime/gc_tuning.py), and until then it keeps what it has received.
        self._receive: Callable[[Any, bytes], None] = Connection._receive_frames
        # Receives the plaintext under TLS.
        self._receive_plain: Callable[[Any, bytes], None] = Connection._receive_frames
        self._calls: dict[int, asyncio.Future[Command]] = {}
        # Task -> whether it is a parked long poll.
        self._tasks: dict[asyncio.Task[None], bool] = {}
        self._out: list[bytes | memoryview] = []
        # How many bytes of `_out` are responses of tasks.
        self._delivered_size = 0
        self._writable: asyncio.Future[None] | None = None
        self._turns: asyncio.Lock | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(self.limits.write_buffer_high, self.limits.write_buffer_low)
        self.remote = format_address(transport.get_extra_info("peername"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared.buffer if sizehint < 0 else self._shared.buffer[:sizehint]

    def buffer_updated(self, size: int) -> None:
        self.is_active = True
        self._receive(self, bytes(self._shared.buffer[:size]))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        waiting: list[asyncio.Future[Any]] = list(self._calls.values())
        if self._handshake is not None:
            waiting.append(self._handshake)
            self._handshake = None
        for future in waiting:
            if not future.done():
                future.set_exception(self._loss("was lost", error))
                # The waiting task may have been cancelled in this iteration; asyncio would log the exception.
                future.exception()
        self._calls.clear()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if not self.closed.done():
            self.closed.set_result(None)
        for task, is_parked in list(self._tasks.items()):
            if is_parked:
                task.cancel()
        self._release()
        # The transport refers to its protocol. Without it, `is_closed` holds.
        self._transport = self._tls = None
        if self._on_closed is not None:
            self._on_closed(self)

    def _release(self) -> None:
        """Free received data, so that a reference to a closed connection does not keep it alive."""
        self._reader.clear()
        if self._counted_size:
            self._count_partial()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # Our own requests

    async def call(self, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0) -> Reply[A]:
        """Return the response; AnswerError if its code is not SUCCESS, RemotingError if there is none."""
        answer = await self.ask(request, body, timeout_seconds=timeout_seconds)
        if answer.code != ResponseCode.SUCCESS:
            raise AnswerError.of(answer.code, answer.remark)
        header = None if answer.ext is None else request.answer.decode(answer.ext)
        return Reply(header, answer.body, answer.code, answer.remark)  # type: ignore[arg-type]

    async def ask(self, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0) -> Command:
        """Return the response whatever its code; RemotingError if there is none."""
        opaque = next_opaque()
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._submit(request, opaque, 0, body)
                self._calls[opaque] = future
                return await future
        except TimeoutError as error:
            raise CallTimeout(
                f"no answer to {request.code.name} from {self.remote} within {timeout_seconds} s"
            ) from error
        finally:
            self._calls.pop(opaque, None)
            # The exception of the future refers to this frame, and the frame to the connection.
            del future

    def begin(self, frame: bytes, opaque: int) -> asyncio.Future[Command]:
        """Send a request and return the future of its response; a caller that stops waiting must call `forget`.

        There is no flow control here: wait for `writable` first.
        """
        if self.is_closed:
            raise self._loss("is closed")
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._calls[opaque] = future
        self.send(frame)
        return future

    def forget(self, opaque: int) -> None:
        self._calls.pop(opaque, None)

    @property
    def is_writable(self) -> bool:
        return self._writable is None

    async def writable(self) -> None:
        """Return when the write buffer has drained, or the connection is closed."""
        while self._writable is not None and not self.is_closed:
            await asyncio.shield(self._writable)

    @property
    def turns(self) -> asyncio.Lock:
        """Held while a large response is prepared, so that large responses are made one at a time."""
        if self._turns is None:
            self._turns = asyncio.Lock()
        return self._turns

    async def turn(self) -> None:
        """Like `drained`, but releases the waiting tasks one at a time."""
        async with self.turns:
            await self.drained()

    async def drained(self) -> None:
        """Return when the write buffer has drained once, even if it has filled up again; or on close."""
        if self._writable is not None and not self.is_closed:
            await asyncio.shield(self._writable)

    async def call_oneway(self, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0) -> None:
        """Send a oneway request; CallTimeout if the peer does not read."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._submit(request, next_opaque(), ONEWAY_BIT, body)
        except TimeoutError as error:
            raise CallTimeout(
                f"{request.code.name} could not be sent to {self.remote} within {timeout_seconds} s"
            ) from error

    def send_oneway(self, request: Request[Any], body: bytes = b"") -> bool:
        """Send a oneway request without waiting; False if the connection is closed or the peer does not read."""
        if self._writable is not None or self.is_closed:
            return False
        self.send(_request_frame(request, next_opaque(), ONEWAY_BIT, body))
        return True

    async def _submit(self, request: Request[Any], opaque: int, flag: int, body: bytes) -> None:
        await self.writable()
        if self.is_closed:
            raise self._loss("is closed")
        self.send(_request_frame(request, opaque, flag, body))

    def _loss(self, what: str, error: Exception | None = None) -> ConnectionLost:
        reason = self._refusal or error
        return ConnectionLost(f"connection to {self.remote} {what}" + (f": {reason}" if reason else ""))

    # Sending

    @property
    def is_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def unsent_size(self) -> int:
        """The number of bytes that are buffered because the peer has not read them."""
        size = sum(map(len, self._out))
        if self._transport is not None:
            size += self._transport.get_write_buffer_size()
        return size

    def send(self, frame: Answer) -> None:
        """Queues a frame; all frames of one loop iteration leave in one write."""
        self.send_all(frame if isinstance(frame, list) else (frame,))

    def send_all(self, frames: Iterable[bytes | memoryview], *, is_flushed: bool = False) -> None:
        """Queues several frames. Pass `is_flushed=True` if you call `flush_waiting` before this loop iteration ends."""
        if not self._out:
            loop, shared = self._loop, self._shared
            if is_flushed and (not shared.waiting or shared.loop is loop):
                shared.loop = loop
            elif not shared.waiting or shared.loop is not loop:
                shared.loop, shared.waiting = loop, []
                at_end_of_turn(loop, flush_waiting)
            shared.waiting.append(self)
        self._out += frames

    def deliver(self, answer: Answer) -> None:
        """Send the response of a task. Large ones are written at once, so that the next task sees if they drain."""
        if not self._out:
            self._delivered_size = 0
        self.send(answer)
        self._delivered_size += sum(map(len, answer)) if isinstance(answer, list) else len(answer)
        if self._delivered_size > self.limits.write_buffer_high:
            self.flush()

    def flush(self) -> None:
        """Write the queued frames at once."""
        out = self._out
        if not out:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            out.clear()
            return
        self.is_active = True
        if (
            len(out) > 1
            and self._tls is None
            and max(len(out[0]), len(out[1])) >= LARGE_SIZE
            and isinstance(transport, SocketTransport)
        ):
            # Joining large pieces costs more than a vectored write. Clients have the transport of asyncio, whose
            # writelines() either joins them too (Python 3.11) or never pauses the writer (3.12.1, 3.13.0).
            pieces = out[:]
            out.clear()
            transport.writelines(pieces)
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if self._tls is not None:
            self._tls.send(data)
            data = self._tls.outgoing()
        transport.write(data)

    def close(self) -> None:
        """Close the connection after the queued frames are written."""
        if self._transport is None or self._transport.is_closing():
            return
        self.flush()
        if self._tls is not None:
            self._tls.end()
            self._transport.write(self._tls.outgoing())
        self._transport.close()

    def abort(self) -> None:
        """Close at once, without writing the rest; does nothing if the connection is lost.

        Received data that was not handled is freed before this returns.
        """
        # The transport of asyncio raises if it is aborted after it was closed and has written the rest.
        if self._transport is not None and not self.closed.done():
            self._transport.abort()
            self._release()

    # Receiving

    def _count_partial(self) -> None:
        """Report the size of the incomplete frame, which has changed."""
        self._counted_size = self._reader.partial_size

    @property
    def is_partial(self) -> bool:
        """Whether a frame or a TLS handshake is incomplete."""
        return self._reader.partial_size > 0 or (self._tls is not None and not self._tls.is_established)

    def _receive_frames(self, data: bytes) -> None:
        if self._reader.broken is not None:
            # The connection is about to be closed.
            return
        cache = self._router.response_cache
        if cache is not None and not self._reader.partial_size:
            count, end = cache.answer(data, self._out, self, size_max=self.limits.write_buffer_high)
            if count:
                self.frames_received += count
                data = data[end:]
        frames = self._reader.feed(data)
        self.frames_received += len(frames)
        if self._reader.partial_size != self._counted_size:
            self._count_partial()
        # A broken frame closes the connection, so its other requests are not deferred.
        if frames and self._reader.broken is None and self._router.collects(frames, self):
            return
        self._handle(iter(frames))

    def admits(self, request: Incoming[Any], count: int) -> bool:
        """Whether the router's policies admit requests of this connection that equal `request`, undecoded."""
        return self._router.admit_equal(request, self, count)

    def read_equal(self, serializations: Sequence[int], headers: Sequence[bytes]) -> EqualHeaders | None:
        """Read the headers of collected frames as columns, if they are equal (`HeaderTemplates.read_columns`)."""
        return self._router.templates.read_columns(serializations, headers)

    def decode_taken(
        self, frames: Sequence[Frame], origins: "Sequence[Connection]"
    ) -> list[Incoming[Any] | Frame | None]:
        """Decode frames that were collected from connections with the same router (`Router.decode_taken`)."""
        return self._router.decode_taken(frames, origins)

    def handle_taken(self, request: Incoming[Any]) -> None:
        """Handle a request that was taken (`handles(take=...)`)."""
        answer = self._router.handle_taken(request)
        if answer is not None:
            self.send(answer)

    def answer(self, frames: Iterable[Frame]) -> None:
        """Handle frames: dispatches requests, and completes the calls that responses belong to."""
        self._handle(iter(frames))

    def _handle(self, frames: Iterator[Frame]) -> None:
        """Handle the frames of one read; their responses leave in one write."""
        out, answer = self._out, self._router.answer
        size, size_max = 0, self.limits.write_buffer_high
        try:
            for frame in frames:
                reply = answer(frame, self)
                if reply is None:
                    continue
                if isinstance(reply, list):
                    out += reply
                    size += sum(map(len, reply))
                else:
                    out.append(reply)
                    size += len(reply)
                if size > size_max:
                    self.flush()
                    size = 0
                    if self._hold(frames):
                        return
            if self._reader.broken is not None:
                # The requests before the broken frame are answered first, also those that were taken.
                at_end_of_turn(self._loop, partial(self._refuse, self._reader.broken))
        except ProtocolError as error:
            self._refuse(error)
        if out:
            self.flush()

    def _hold(self, frames: Iterator[Frame]) -> bool:
        """Whether the remaining frames must wait until the peer has read the responses so far."""
        return False

    def receive_response(self, command: Command) -> None:
        """Complete the call that this is the response to."""
        call = self._calls.get(command.opaque)
        if call is None or call.done():
            log.debug("response from %s with unknown opaque %d", self.remote, command.opaque)
        else:
            call.set_result(command)

    def _receive_tls(self, data: bytes) -> None:
        assert self._tls is not None
        assert self._transport is not None
        try:
            plain = self._tls.receive(data)
        except ssl.SSLError as error:
            # The pending output is the TLS alert for the peer.
            self._transport.write(self._tls.outgoing())
            self._refuse(ProtocolError(f"TLS failed: {error}"))
            return
        if out := self._tls.outgoing():
            self._transport.write(out)
        if self._handshake is not None and self._tls.is_established and not self._handshake.done():
            self._handshake.set_result(None)
        if plain:
            self._receive_plain(self, plain)
        if self._tls.is_ended:
            self.close()

    def _refuse(self, reason: ProtocolError) -> None:
        self._refusal = str(reason)
        self._log_refusal(self._refusal)
        self.close()

    def _log_refusal(self, reason: str) -> None:
        log.warning("closed the connection from %s: %s", self.remote, reason)

    def accept_tls(self, context: ssl.SSLContext) -> None:
        """Start TLS as the server side."""
        self._tls = TlsLayer(context, server_side=True)
        self._receive = Connection._receive_tls

    async def begin_tls(self, context: ssl.SSLContext, *, server_hostname: str) -> None:
        """Start TLS as the client side; ConnectionLost with the reason if the handshake fails."""
        if self._transport is None:
            raise self._loss("was lost")
        self._tls = TlsLayer(context, server_side=False, server_hostname=server_hostname)
        self._receive = Connection._receive_tls
        self._handshake = asyncio.get_running_loop().create_future()
        self._tls.start()
        self._transport.write(self._tls.outgoing())
        await self._handshake

    # Requests of the peer

    def carry(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the task of one request; SystemBusy if too many requests of this connection are in flight."""
        if len(self._tasks) >= self.limits.requests_in_flight_max:
            work.close()
            raise SystemBusy(f"[OVERLOAD]system busy, {len(self._tasks)} requests in flight on this connection")
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = False
        task.add_done_callback(self._tasks.pop)

    def park(self, task: asyncio.Task[None]) -> None:
        """Mark a task as a waiting long poll: it is cancelled when the connection closes."""
        self._tasks[task] = True
        if self.closed.done():
            task.cancel()

    def resume(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = False

    async def finish(self) -> None:
        """Cancel the tasks of requests."""
        if self._tasks:
            # A task that is cancelled before its first step would never leave its request queue.
            await asyncio.sleep(0)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_working(self) -> bool:
        """Whether tasks of requests are running; they may outlive the connection."""
        return bool(self._tasks)


async def close_all(connections: Iterable[Connection], *, seconds: float) -> None:
    """Close connections and cancel their tasks; each peer has `seconds` to read what was already written."""
    connections = list(connections)
    for connection in connections:
        connection.close()
    await asyncio.gather(*(connection.finish() for connection in connections))
    late = {connection.closed for connection in connections if not connection.closed.done()}
    if late:
        _, late = await asyncio.wait(late, timeout=seconds)
    for connection in connections:
        connection.abort()
    if late:
        await asyncio.wait(late)


def _request_frame(request: Request[Any], opaque: int, flag: int, body: bytes) -> bytes:
    ext = request.ext()
    return encode(JSON, code=request.code, opaque=opaque, flag=flag, ext=ext or None, body=body)
