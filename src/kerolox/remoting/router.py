"""The router: finds the method of a request by its code, and asks the policies before it (NettyRemotingAbstract)."""

import inspect
import logging
import typing
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from kerolox.errors import AnswerError, ProtocolError, RequestCodeNotSupported, SystemFailure
from kerolox.remoting.policy import Policy
from kerolox.remoting.response_cache import ResponseCache
from kerolox.runtime.request_queue import RequestQueue
from kerolox.runtime.text.fastjson import DECODE_ERRORS
from kerolox.wire import binary
from kerolox.wire.command import (
    ANSWER_BIT,
    BINARY,
    JSON,
    ONEWAY_BIT,
    Answer,
    Command,
    decode,
    encode_answer,
    plain_answer,
    written_answer,
)
from kerolox.wire.frames import Frame
from kerolox.wire.header import Empty, ExtFields, Header, Request
from kerolox.wire.header_templates.reader import HeaderTemplates
from kerolox.wire.integers import Int32
from kerolox.wire.reply import Reply

if TYPE_CHECKING:
    from kerolox.remoting.connection import Connection

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)
Q = TypeVar("Q", bound=Request[Any])


class Incoming(msgspec.Struct, Generic[Q], rename="camel", kw_only=True, gc=False):
    """A request on its way to the method that answers it. A JSON header is decoded straight into it."""

    code: Int32
    opaque: Int32
    flag: Int32 = 0
    # Without a version a client counts as the oldest, as in Java.
    version: Int32 = 0
    language: str | int | None = "JAVA"
    header: Q = msgspec.field(name="extFields")
    # Not part of the header. The names contain a space, so that no field of ours collides with a field of Java's.
    body: bytes = msgspec.field(name=" body", default=b"")
    serialization: int = msgspec.field(name=" serialization", default=JSON)
    origin: Any = msgspec.field(name=" origin", default=None)

    @property
    def is_plain(self) -> bool:
        """Whether the sender expects a response, in JSON."""
        return self.serialization == JSON and not self.flag & ONEWAY_BIT

    @property
    def connection(self) -> "Connection":
        """The connection that the request arrived on."""
        return self.origin  # type: ignore[no-any-return]


class Later(Generic[A]):
    """Returned by a plain method that responds later, from a callback; cheaper than a task that waits."""

    __slots__ = ("request",)

    def __init__(self, request: Incoming[Any]) -> None:
        self.request = request

    def answer(self, reply: Reply[A]) -> None:
        request = self.request
        if not request.flag & ONEWAY_BIT:
            request.origin.send(_encoded(request, reply))

    def fail(self, error: Exception) -> None:
        answer = _failed(self.request, error, {})
        if answer is not None:
            self.request.origin.send(answer)


class EncodedResponse(Generic[A]):
    """Returned by a plain method that has encoded the response frame itself, for a request that `is_plain`."""

    __slots__ = ("answer",)

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


Answering = Reply[A] | Later[A] | EncodedResponse[A] | Awaitable[Reply[A] | Later[A]]


def handles(
    request: type[Request[A]], *, request_queue: str = "default", take: str | None = None
) -> Callable[[Callable[[Any, Any], Answering[A]]], Callable[[Any, Any], Answering[A]]]:
    """Mark the method of a processor that handles `request`: a plain function or a coroutine function.

    A plain method may return an awaitable if it finds that it must wait. `take` names a method of the same processor
    that gets the request first: it collects requests, responds to many together, and has others handled one by one.
    """

    def mark(method: Callable[[Any, Any], Answering[A]]) -> Any:
        method.__dict__["handles"] = (request, request_queue, take)
        return method

    return mark


class _Route(msgspec.Struct):
    request: type[Request[Any]]
    # Decodes frame header and custom header in one pass.
    decode: Callable[[bytes], Incoming[Any]]
    method: Callable[[Any], Any]
    request_queue: RequestQueue
    is_coroutine: bool
    take: Callable[[Any], None] | None
    # The fields of an error response: Java sends those of the expected response type, empty.
    error_ext: dict[str, str] | None


# The beginning of a JSON header as Java and most other clients write it.
_CODE_FIRST = b'{"code":'
# This many bytes of a header tell all codes of two or three digits apart.
_BEGINNING_SIZE = 12


class Router:
    """Routes requests to the methods of processors; TypeError if two methods handle the same code.

    Every request passes `policies` before a method handles it, takes it, or a remembered response answers it.
    """

    def __init__(
        self,
        *processors: object,
        request_queues: dict[str, RequestQueue] | None = None,
        policies: Sequence[Policy] = (),
    ) -> None:
        self._policies = tuple(policies)
        self._request_queues = request_queues or {}
        self._table: dict[int, _Route] = {}
        self._by_digits: dict[bytes, _Route] = {}
        self._by_beginning: dict[bytes, _Route] = {}
        self.templates = HeaderTemplates()
        # Created with the first response that may be repeated (`Reply.again`).
        self.response_cache: ResponseCache | None = None
        # Gets the frames of a read before they are decoded, if all are requests that it takes. It may keep them, to
        # decode them later with others.
        self.collect: Callable[[Sequence[Frame], Connection], bool] | None = None
        # The decoders of requests that are taken, by the beginning of a JSON header. The kinds also have their codes in
        # binary headers, each with its serialization.
        self._taken_decoders: dict[bytes, Callable[[bytes], Incoming[Any]]] = {}
        self._taken_kinds: set[bytes | tuple[int, bytes]] = set()
        for processor in processors:
            self.include(processor)

    def include(self, processor: object) -> None:
        self.collect = getattr(processor, "collect", self.collect)
        for _, method in inspect.getmembers(processor, callable):
            if marked := getattr(method, "handles", None):
                request, request_queue, take = marked
                self._add(request, request_queue, method, None if take is None else getattr(processor, take))

    def _add(
        self,
        request: type[Request[Any]],
        request_queue: str,
        method: Callable[[Any], Any],
        take: Callable[[Any], None] | None,
    ) -> None:
        where = f"{method.__qualname__} for {request.__name__}"
        if request.code in self._table:
            raise TypeError(f"{where}: {self._table[request.code].method.__qualname__} handles it already")
        hints = typing.get_type_hints(method)
        gives = _answers_in(hints.pop("return", None))
        if [typing.get_args(hint) for hint in hints.values()] != [(request,)] or gives != {request.answer}:
            raise TypeError(f"{where}: expected Incoming[{request.__name__}] -> Reply[{request.answer.__name__}]")
        route = _Route(
            request=request,
            decode=msgspec.json.Decoder(Incoming[request], strict=False).decode,  # type: ignore[valid-type]
            method=method,
            request_queue=self._request_queues.setdefault(request_queue, RequestQueue(request_queue, 10_000)),
            is_coroutine=inspect.iscoroutinefunction(method),
            take=take,
            error_ext=None if request.answer is Empty else {},
        )
        self._table[request.code] = self._by_digits[b"%d" % request.code] = route
        beginning = _CODE_FIRST + b'%d,"' % request.code
        if _BEGINNING_SIZE <= len(beginning) <= _BEGINNING_SIZE + 1:
            self._by_beginning[beginning[:_BEGINNING_SIZE]] = route
            if take is not None:
                self._taken_decoders[beginning[:_BEGINNING_SIZE]] = route.decode
                self._taken_kinds |= {beginning[:_BEGINNING_SIZE], (BINARY, request.code.to_bytes(2))}

    @property
    def requests(self) -> dict[int, type[Request[Any]]]:
        """The request types that are handled, by code."""
        return {code: route.request for code, route in self._table.items()}

    def answer(self, frame: Frame, connection: "Connection") -> Answer | None:
        """Return the response frame; None if there is none, or if it is sent later.

        A frame that responds to one of our own calls completes that call. ProtocolError if the header is malformed.
        """
        serialization, header, body = frame
        if serialization == JSON:
            route = self._by_beginning.get(header[:_BEGINNING_SIZE])
            if route is None and header.startswith(_CODE_FIRST):
                route = self._by_digits.get(header[8 : header.find(b",", 8)])
            if route is not None:
                try:
                    request = route.decode(header)
                except DECODE_ERRORS:
                    # Not as declared: the general decoder below accepts more, and says what is wrong.
                    pass
                else:
                    if not request.flag & ANSWER_BIT:
                        # Overwritten, because a hostile header may contain fields with our private names.
                        request.body = body
                        request.serialization = JSON
                        request.origin = connection
                        return self._dispatch(route, request, header)
        elif serialization == BINARY:
            return self._answer_binary(frame, connection)
        command = decode(frame)
        if command.flag & ANSWER_BIT:
            connection.receive_response(command)
            return None
        return self._answer_command(command, connection)

    def collects(self, frames: Sequence[Frame], connection: "Connection") -> bool:
        """Whether the frames of a read are kept, to be decoded together with others (`decode_taken`).

        All of them must be requests that are taken. Other requests may have large responses, which must not pile up if
        the peer does not read them; only the connection can hold the rest of a read back.
        """
        if self.collect is None:
            return False
        kinds = {
            header[:_BEGINNING_SIZE] if serialization == JSON else (serialization, header[:2])
            for serialization, header, _ in frames
        }
        return kinds <= self._taken_kinds and self.collect(frames, connection)

    def decode_taken(
        self, frames: Sequence[Frame], origins: "Sequence[Connection]"
    ) -> list[Incoming[Any] | Frame | None]:
        """Decode requests that are taken, each with the connection it came from, and ask the policies.

        A frame in place of a request must be passed to `answer`. None stands for a request that was refused; the
        response is queued.
        """
        decoders, decode_binary = self._taken_decoders, self._decode_binary
        try:
            requests = [
                decoders[header[:_BEGINNING_SIZE]](header) if serialization == JSON else decode_binary(header)
                for serialization, header, _ in frames
            ]
        except (*DECODE_ERRORS, KeyError):
            return [*frames]
        decoded: list[Incoming[Any] | Frame | None] = []
        for request, frame, connection in zip(requests, frames, origins, strict=True):
            if request is None or request.flag & ANSWER_BIT:
                decoded.append(frame)
                continue
            # Overwritten, as in `answer`.
            request.serialization, _, request.body = frame
            request.origin = connection
            decoded.append(request if not self._policies or self._is_admitted(request) else None)
        if isinstance(decoded[0], Incoming):
            learnt = msgspec.structs.replace(decoded[0], body=b"", origin=None)
            self.templates.learn_columns(frames[0][1], learnt, len(frames))
        return decoded

    def _is_admitted(self, request: Incoming[Any]) -> bool:
        """Ask the policies; if they refuse, queue the response."""
        try:
            self._admit(request)
        except Exception as error:
            answer = _failed(request, error, self._table[request.code].error_ext)
            if answer is not None:
                request.connection.send(answer)
            return False
        return True

    def _decode_binary(self, header: bytes) -> Incoming[Any] | None:
        """Decode a binary header with a template; None if no template matches it."""
        known = self.templates.read(header)
        if known is None:
            return None
        code, language, version, opaque, flag, typed = known
        return Incoming(code=code, opaque=opaque, flag=flag, version=version, language=language, header=typed)

    def _answer_binary(self, frame: Frame, connection: "Connection") -> Answer | None:
        """Like `answer` for a binary header, without building a Command."""
        _, header, body = frame
        request: Incoming[Any] | None
        fields: ExtFields = None
        try:
            request = self._decode_binary(header)
            is_decoded = request is not None
            if request is None:
                code, language, version, opaque, flag, _, fields = binary.decode(header)
                request = Incoming(
                    code=code,
                    opaque=opaque,
                    flag=flag,
                    version=version,
                    language=language,
                    header=cast("Request[Any]", None),
                )
        except DECODE_ERRORS as error:
            raise ProtocolError(f"header cannot be read: {error}") from error
        if request.flag & ANSWER_BIT:
            connection.receive_response(decode(frame))
            return None
        request.body, request.serialization, request.origin = body, BINARY, connection
        if is_decoded:
            return self._dispatch(self._table[request.code], request)
        return self._answer_fields(request, fields, header)

    def _answer_command(self, command: Command, connection: "Connection") -> Answer | None:
        request: Incoming[Any] = Incoming(
            code=command.code,
            opaque=command.opaque,
            flag=command.flag,
            version=command.version,
            language=command.language,
            header=cast("Request[Any]", None),
            body=command.body,
            serialization=command.serialization,
            origin=connection,
        )
        return self._answer_fields(request, command.ext)

    def _answer_fields(self, request: Incoming[Any], fields: ExtFields, learnt: bytes = b"") -> Answer | None:
        """Handle a request whose fields are not decoded yet.

        `learnt` is its binary header: a template is learnt from it, by which the next ones are decoded faster.
        """
        route = self._table.get(request.code)
        if route is None:
            return _failed(request, RequestCodeNotSupported(f" request type {request.code} not supported"), None)
        try:
            request.header = route.request.decode(fields)
        except SystemFailure as error:
            return _failed(request, error, route.error_ext)
        if learnt:
            self.templates.learn(learnt, request.header, request.language)
        return self._dispatch(route, request)

    def _dispatch(self, route: _Route, request: Incoming[Any], header: bytes = b"") -> Answer | None:
        """Ask the policies, then have the request taken or handled. Every decoded request comes through here."""
        try:
            if self._policies:
                self._admit(request)
            if route.take is not None:
                route.take(request)
                return None
        except Exception as error:
            return _failed(request, error, route.error_ext)
        return self._answer(route, request, header)

    def _admit(self, request: Incoming[Any]) -> None:
        for policy in self._policies:
            policy.admit(request)

    def admit_equal(self, request: Incoming[Any], connection: "Connection", count: int) -> bool:
        """Whether all policies admit requests that equal one that was decoded before (`Policy.admit_equal`)."""
        if not self._policies:
            return True
        return all(policy.admit_equal(request, connection, count) for policy in self._policies)

    def handle_taken(self, request: Incoming[Any]) -> Answer | None:
        """Handle a request that was taken before; the policies have admitted it."""
        return self._answer(self._table[request.code], request)

    def _answer(self, route: _Route, request: Incoming[Any], header: bytes = b"") -> Answer | None:
        try:
            if route.is_coroutine:
                _start(route, request, None)
                return None
            reply = route.method(request)
            if type(reply) is not Reply:
                if type(reply) is EncodedResponse:
                    return reply.answer
                if not isinstance(reply, Later):
                    _start(route, request, reply)
                return None
            if request.flag & ONEWAY_BIT:
                return None
            if reply.header is None and request.serialization == JSON and not reply.code and reply.remark is None:
                if reply.again is not None:
                    self._remember(header, request, reply)
                return plain_answer(request.opaque, reply.body)
            return _encoded(request, reply)
        except Exception as error:
            return _failed(request, error, route.error_ext)

    def _remember(self, header: bytes, request: Incoming[Any], reply: Reply[Any]) -> None:
        if self.response_cache is None:
            self.response_cache = ResponseCache(self._admits_cached if self._policies else None)
        assert reply.again is not None
        self.response_cache.remember(header, request, reply.body, reply.again)

    def _admits_cached(self, request: Incoming[Any], connection: "Connection") -> bool:
        return self.admit_equal(request, connection, 1)


def _answers_in(hint: Any) -> set[Any]:
    """Return the response headers in the return annotation of a method."""
    if typing.get_origin(hint) in (Reply, Later, EncodedResponse):
        return set(typing.get_args(hint))
    return set().union(*map(_answers_in, typing.get_args(hint)))


def _start(route: _Route, request: Incoming[Any], reply: Awaitable[Reply[Any] | Later[Any]] | None) -> None:
    """Start the task that responds. `reply` is the awaitable that the method returned, or None to call it there."""
    is_admitted = False
    try:
        route.request_queue.enter()
        is_admitted = True
        request.connection.carry(_carry_out(route, request, reply))
    except BaseException:
        if is_admitted:
            route.request_queue.leave()
        if inspect.iscoroutine(reply):
            reply.close()
        raise


async def _carry_out(route: _Route, request: Incoming[Any], waiting: Awaitable[Reply[Any] | Later[Any]] | None) -> None:
    connection, request_queue = request.connection, route.request_queue
    try:
        if waiting is None:
            if not connection.is_writable:
                # The peer does not read: its responses must not pile up in memory.
                request_queue.park()
                try:
                    await connection.turn()
                finally:
                    request_queue.resume()
            waiting = route.method(request)
        reply = await waiting
        answer = None
        if not (isinstance(reply, Later) or request.flag & ONEWAY_BIT):
            answer = _encoded(request, reply)
    except Exception as error:
        answer = _failed(request, error, route.error_ext)
    finally:
        request_queue.leave()
    if answer is not None:
        connection.deliver(answer)


def _encoded(request: Incoming[Any], reply: Reply[Any]) -> Answer:
    if reply.parts and reply.header is not None and request.serialization == JSON:
        fields = reply.header.written()
        if fields is not None:
            return written_answer(request.opaque, reply.code, reply.remark, fields, reply.parts)
    ext = None if reply.header is None else reply.header.ext()
    return encode_answer(request.serialization, request.opaque, reply.code, reply.remark, ext, reply.body, reply.parts)


def _failed(request: Incoming[Any], error: Exception, ext: dict[str, str] | None) -> Answer | None:
    """Return the error response for an exception of a policy or a method; None for a oneway request."""
    if isinstance(error, ProtocolError):
        error = SystemFailure(str(error))
    if not isinstance(error, AnswerError):
        log.error("request %d failed", request.code, exc_info=error)
        error = SystemFailure(f"{type(error).__name__}: {error}")
    if request.flag & ONEWAY_BIT:
        log.debug("oneway request %d refused: %s", request.code, error)
        return None
    return encode_answer(request.serialization, request.opaque, error.code, error.remark, ext, b"")
