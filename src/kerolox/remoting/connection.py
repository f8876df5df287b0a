"""One connection: bytes in, frames cut, requests answered, calls matched with their answers."""

import asyncio
import itertools
import logging
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, CallTimeout, ConnectionLost, ProtocolError, SystemBusy
from kerolox.remoting.address import format_address
from kerolox.remoting.limits import Limits
from kerolox.remoting.routes import Routes
from kerolox.remoting.tls import TlsLayer
from kerolox.remoting.transport import Watched
from kerolox.runtime.server_loop import at_end_of_turn
from kerolox.wire.command import JSON, LARGE_SIZE, ONEWAY_BIT, Answer, Command, encode
from kerolox.wire.frames import Frame, FrameReader
from kerolox.wire.header import Header, Request
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)

# How much one peer may bring before the others have their turn; more, while it completes a long frame.
RECEIVE_SIZE = 64 * 1024
RECEIVE_SIZE_PARTIAL = 128 * 1024


class _Shared:
    """What all connections of an event loop share: the buffer they read into, and which of them have to write.

    Each takes out what it read before the next reads.
    """

    __slots__ = ("buffer", "large", "loop", "waiting")

    def __init__(self) -> None:
        self.large = memoryview(bytearray(RECEIVE_SIZE_PARTIAL))
        self.buffer = self.large[:RECEIVE_SIZE]
        # Connections with frames that leave in the next turn of this loop; one that was closed had none.
        self.waiting: list[Connection] = []
        self.loop: asyncio.AbstractEventLoop | None = None


class _Local(threading.local):
    """A loop has a thread, and a thread one loop at a time. Each connection keeps what is its thread's."""

    def __init__(self) -> None:
        self.shared = _Shared()


_local = _Local()


def flush_waiting() -> None:
    """Lets all that was sent on connections of this thread leave now, and not in the next turn of the loop."""
    shared = _local.shared
    waiting = shared.waiting
    if waiting:
        shared.waiting = []
        for connection in waiting:
            try:
                connection.flush()
            except Exception:
                # Whatever is wrong with one peer, the others must get their answers.
                log.exception("closed the connection to %s: what it was sent could not leave", connection.remote)
                connection.abort()


# The JavaScript client takes an opaque of 0 for none at all.
_opaques = itertools.count(1)


def next_opaque() -> int:
    """Returns the number that tells the next request from all others under way."""
    return next(_opaques) & 0x7FFFFFFF


class Connection(Watched):
    """Both ends of the protocol: either side may ask, and answers come in any order."""

    def __init__(
        self, routes: Routes, limits: Limits, *, on_closed: Callable[["Connection"], None] | None = None
    ) -> None:
        self.limits = limits
        self.remote = "nobody"
        self._loop = asyncio.get_running_loop()
        self._shared = _local.shared
        self.closed: asyncio.Future[None] = self._loop.create_future()
        # Set with every byte in or out, cleared by whoever watches for silence.
        self.is_active = True
        self.frames_received = 0
        self._routes = routes
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._tls: TlsLayer | None = None
        self._handshake: asyncio.Future[None] | None = None
        self._refusal: ProtocolError | None = None
        self._reader = FrameReader(limits.frame_size_max)
        self._receive: Callable[[bytes], None] = self._receive_frames
        # What becomes of the plaintext under TLS.
        self._receive_plain: Callable[[bytes], None] = self._receive_frames
        self._calls: dict[int, asyncio.Future[Command]] = {}
        # Of each whether it is parked.
        self._tasks: dict[asyncio.Task[None], bool] = {}
        self._out: list[bytes | memoryview] = []
        # Bytes of the answers of tasks in `_out`.
        self._delivered_size = 0
        self._writable: asyncio.Future[None] | None = None
        self._turns: asyncio.Lock | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(self.limits.write_buffer_high, self.limits.write_buffer_low)
        self.remote = format_address(transport.get_extra_info("peername"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared.large if self._reader.partial_size else self._shared.buffer

    def buffer_updated(self, size: int) -> None:
        self.is_active = True
        self._receive(bytes(self._shared.large[:size]))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        waiting: list[asyncio.Future[Any]] = list(self._calls.values())
        if self._handshake is not None:
            waiting.append(self._handshake)
        for future in waiting:
            if not future.done():
                future.set_exception(self._loss("was lost", error))
                # Whoever waited may have been cancelled in this very turn; asyncio would complain.
                future.exception()
        self._calls.clear()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if not self.closed.done():
            self.closed.set_result(None)
        for task, is_parked in list(self._tasks.items()):
            if is_parked:
                task.cancel()
        if self._on_closed is not None:
            self._on_closed(self)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # Asking

    async def call(self, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0) -> Reply[A]:
        """Returns the answer; AnswerError if it is not SUCCESS, RemotingError if none comes."""
        answer = await self.ask(request, body, timeout_seconds=timeout_seconds)
        if answer.code != ResponseCode.SUCCESS:
            raise AnswerError.of(answer.code, answer.remark)
        header = None if answer.ext is None else request.answer.decode(answer.ext)
        return Reply(header, answer.body, answer.code, answer.remark)  # type: ignore[arg-type]

    async def ask(self, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0) -> Command:
        """Returns the answer as it came, whatever it says; RemotingError if none comes."""
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

    def begin(self, frame: bytes, opaque: int) -> asyncio.Future[Command]:
        """Puts a request on its way whose answer will be in the future; whoever stops waiting must `forget` it.

        Nobody minds here whether the peer reads: that is what `writable` is for.
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
        """Returns when the peer has read enough of what it was sent, or has left."""
        while self._writable is not None and not self.is_closed:
            await asyncio.shield(self._writable)

    @property
    def turns(self) -> asyncio.Lock:
        """Held by whoever waits to make an answer that may be large, so that they come one after the other."""
        if self._turns is None:
            self._turns = asyncio.Lock()
        return self._turns

    async def turn(self) -> None:
        """Returns when the peer has read enough, or has left; of those who wait so, to one each time."""
        async with self.turns:
            await self.drained()

    async def drained(self) -> None:
        """Returns when the peer has once read enough, even if it was sent more at once; or has left."""
        if self._writable is not None and not self.is_closed:
            await asyncio.shield(self._writable)

    async def call_oneway(self, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0) -> None:
        """Sends without waiting for an answer, as none will come; CallTimeout if the peer does not read."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._submit(request, next_opaque(), ONEWAY_BIT, body)
        except TimeoutError as error:
            raise CallTimeout(
                f"{request.code.name} could not be sent to {self.remote} within {timeout_seconds} s"
            ) from error

    def tell(self, request: Request[Any], body: bytes = b"") -> bool:
        """Puts a oneway request on its way; False if the peer has left, or does not read what it was sent."""
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
        """How many bytes are kept here because the peer has not read them yet."""
        size = sum(map(len, self._out))
        if self._transport is not None:
            size += self._transport.get_write_buffer_size()
        return size

    def send(self, frame: Answer) -> None:
        """Puts a frame on its way; those of one turn of the loop leave together."""
        self.send_all(frame if isinstance(frame, list) else (frame,))

    def send_all(self, frames: Iterable[bytes | memoryview], *, is_flushed: bool = False) -> None:
        """The same of several. Whoever will call `flush_waiting` before the turn ends says that they are flushed."""
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
        """Sends what a task has made; if that is much it leaves at once, so that the next knows whether it is read."""
        if not self._out:
            self._delivered_size = 0
        self.send(answer)
        self._delivered_size += sum(map(len, answer)) if isinstance(answer, list) else len(answer)
        if self._delivered_size > self.limits.write_buffer_high:
            self.flush()

    def flush(self) -> None:
        """Lets what was sent leave at once."""
        out = self._out
        if not out:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            out.clear()
            return
        self.is_active = True
        if len(out) > 1 and self._tls is None and max(len(out[0]), len(out[1])) >= LARGE_SIZE:
            # To join them would cost more than to send them from where they are.
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
        """Closes after what is under way has been written."""
        if self._transport is None or self._transport.is_closing():
            return
        self.flush()
        if self._tls is not None:
            self._tls.end()
            self._transport.write(self._tls.outgoing())
        self._transport.close()

    def abort(self) -> None:
        """Closes at once; for peers that would not read what is left."""
        if self._transport is not None:
            self._transport.abort()

    # Receiving

    @property
    def partial_size(self) -> int:
        return self._reader.partial_size

    @property
    def is_partial(self) -> bool:
        """Whether the peer has begun something (a frame, a handshake) that it has not finished."""
        return self._reader.partial_size > 0 or (self._tls is not None and not self._tls.is_established)

    def _receive_frames(self, data: bytes) -> None:
        repeated = self._routes.repeated
        if repeated is not None and not self._reader.partial_size:
            count, end = repeated.answer(data, self._out, size_max=self.limits.write_buffer_high)
            if count:
                self.frames_received += count
                data = data[end:]
        frames: Sequence[Frame] = self._reader.feed(data)
        self.frames_received += len(frames)
        sift = self._routes.sift
        # Of who is about to be closed nothing is put aside.
        if frames and sift is not None and self._reader.broken is None:
            frames = sift(frames, self)
        self.answer(frames)

    def answer(self, frames: Iterable[Frame]) -> None:
        """Answers requests, and wakes the calls that the other frames answer."""
        self._handle(iter(frames))

    def _handle(self, frames: Iterator[Frame]) -> None:
        """Handles the frames of one read together; their answers leave in one write."""
        out, answer = self._out, self._routes.answer
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
                raise self._reader.broken
        except ProtocolError as error:
            self._refuse(error)
        if out:
            self.flush()

    def _hold(self, frames: Iterator[Frame]) -> bool:
        """Whether the rest must wait until the peer has read what it has been answered."""
        return False

    def take_answer(self, command: Command) -> None:
        """Wakes the call that this answers."""
        call = self._calls.get(command.opaque)
        if call is None or call.done():
            log.debug("an answer from %s that nobody waits for, opaque %d", self.remote, command.opaque)
        else:
            call.set_result(command)

    def _receive_tls(self, data: bytes) -> None:
        assert self._tls is not None
        assert self._transport is not None
        try:
            plain = self._tls.receive(data)
        except ssl.SSLError as error:
            # What is left to go out is the alert that tells the peer why.
            self._transport.write(self._tls.outgoing())
            self._refuse(ProtocolError(f"TLS failed: {error}"))
            return
        if out := self._tls.outgoing():
            self._transport.write(out)
        if self._handshake is not None and self._tls.is_established and not self._handshake.done():
            self._handshake.set_result(None)
        if plain:
            self._receive_plain(plain)
        if self._tls.is_ended:
            self.close()

    def _refuse(self, reason: ProtocolError) -> None:
        log.warning("closed the connection from %s: %s", self.remote, reason)
        self._refusal = reason
        self.close()

    def accept_tls(self, context: ssl.SSLContext) -> None:
        """Puts TLS between the frames and the socket; the peer has begun it."""
        self._tls = TlsLayer(context, server_side=True)
        self._receive = self._receive_tls

    async def begin_tls(self, context: ssl.SSLContext, *, server_hostname: str) -> None:
        """Puts TLS between the frames and the socket; ConnectionLost, with the reason, if there is no agreement."""
        assert self._transport is not None
        self._tls = TlsLayer(context, server_side=False, server_hostname=server_hostname)
        self._receive = self._receive_tls
        self._handshake = asyncio.get_running_loop().create_future()
        self._tls.start()
        self._transport.write(self._tls.outgoing())
        await self._handshake

    # Answering

    def carry(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work on one request; SystemBusy if this connection has too many under way."""
        if len(self._tasks) >= self.limits.requests_in_flight_max:
            work.close()
            raise SystemBusy(f"[OVERLOAD]system busy, {len(self._tasks)} requests in flight on this connection")
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = False
        task.add_done_callback(self._tasks.pop)

    def park(self, task: asyncio.Task[None]) -> None:
        """Has work that only waits end when the connection does, until it is resumed."""
        self._tasks[task] = True
        if self.closed.done():
            task.cancel()

    def resume(self, task: asyncio.Task[None]) -> None:
        self._tasks[task] = False

    async def finish(self) -> None:
        """Ends what is still being worked on."""
        if self._tasks:
            # A task that is cancelled before its first step never leaves the lane it was admitted to.
            await asyncio.sleep(0)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_working(self) -> bool:
        """Whether requests are being worked on; that goes on when the peer has left without waiting."""
        return bool(self._tasks)


async def close_all(connections: Iterable[Connection], *, seconds: float) -> None:
    """Closes connections and ends their work; a peer has so many seconds to read what was already written."""
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
