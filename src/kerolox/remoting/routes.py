"""Who answers which request: one table, code to method."""

import inspect
import logging
import typing
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec

from kerolox.errors import AnswerError, ProtocolError, RequestCodeNotSupported, SystemFailure
from kerolox.remoting.repeated import RepeatedQuestions
from kerolox.runtime.fastjson import DECODE_ERRORS
from kerolox.runtime.lanes import Lane
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
from kerolox.wire.integers import Int32
from kerolox.wire.reply import Reply
from kerolox.wire.shapes import Shapes

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
    # Who does not say is taken for the oldest, as in Java.
    version: Int32 = 0
    language: str | int | None = "JAVA"
    header: Q = msgspec.field(name="extFields")
    # The rest is not part of the header: set after it, under names that no header has.
    body: bytes = msgspec.field(name=" body", default=b"")
    serialization: int = msgspec.field(name=" serialization", default=JSON)
    origin: Any = msgspec.field(name=" origin", default=None)

    @property
    def is_plain(self) -> bool:
        """Whether it wants an answer, and in JSON."""
        return self.serialization == JSON and not self.flag & ONEWAY_BIT

    @property
    def connection(self) -> "Connection":
        """The connection it came on."""
        return self.origin  # type: ignore[no-any-return]


class Later(Generic[A]):
    """What a plain method returns whose answer comes when something has happened; cheaper than a task that waits."""

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


class Written(Generic[A]):
    """What a plain method returns that has written its answer itself, for a request that `is_plain`."""

    __slots__ = ("answer",)

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


Answering = Reply[A] | Later[A] | Written[A] | Awaitable[Reply[A]]


def handles(
    request: type[Request[A]], *, lane: str = "default", take: str | None = None
) -> Callable[[Callable[[Any, Any], Answering[A]]], Callable[[Any, Any], Answering[A]]]:
    """Marks the method of a processor that answers `request`: plainly, later, or as a coroutine.

    A plain method may also return an awaitable where it finds that it must wait. Another that it names is asked first
    whether it will take the request, and answer it with others.
    """

    def mark(method: Callable[[Any, Any], Answering[A]]) -> Any:
        method.__dict__["handles"] = (request, lane, take)
        return method

    return mark


class _Route(msgspec.Struct):
    request: type[Request[Any]]
    # Decodes frame header and custom header in one pass.
    decode: Callable[[bytes], Incoming[Any]]
    method: Callable[[Any], Any]
    lane: Lane
    is_coroutine: bool
    take: Callable[[Any], bool] | None
    # Java answers even an error with the (empty) fields of the answer it would have given.
    error_ext: dict[str, str] | None


# How Java, and most others, begin the header of a request.
_CODE_FIRST = b'{"code":'
# So many bytes of it are enough to know a code of two or three digits, as most have.
_BEGINNING_SIZE = 12


class Routes:
    """The table a server answers from; a code with two owners is refused when it is built."""

    def __init__(self, *processors: object, lanes: dict[str, Lane] | None = None) -> None:
        self._lanes = lanes or {}
        self._table: dict[int, _Route] = {}
        self._by_digits: dict[bytes, _Route] = {}
        self._by_beginning: dict[bytes, _Route] = {}
        self._shapes = Shapes()
        # Made when the first handler says that its answer can be given again.
        self.repeated: RepeatedQuestions | None = None
        # Is offered all frames of a read first, and returns those it leaves to us.
        self.sift: Callable[[Sequence[Frame], Connection], Sequence[Frame]] | None = None
        for processor in processors:
            self.include(processor)

    def include(self, processor: object) -> None:
        self.sift = getattr(processor, "sift", self.sift)
        for _, method in inspect.getmembers(processor, callable):
            if marked := getattr(method, "handles", None):
                request, lane, take = marked
                self._add(request, lane, method, None if take is None else getattr(processor, take))

    def _add(
        self, request: type[Request[Any]], lane: str, method: Callable[[Any], Any], take: Callable[[Any], bool] | None
    ) -> None:
        where = f"{method.__qualname__} for {request.__name__}"
        if request.code in self._table:
            raise TypeError(f"{where}: {self._table[request.code].method.__qualname__} answers it already")
        hints = typing.get_type_hints(method)
        gives = _answers_in(hints.pop("return", None))
        if [typing.get_args(hint) for hint in hints.values()] != [(request,)] or gives != {request.answer}:
            raise TypeError(f"{where}: takes Incoming[{request.__name__}], gives Reply[{request.answer.__name__}]")
        route = _Route(
            request=request,
            decode=msgspec.json.Decoder(Incoming[request], strict=False).decode,  # type: ignore[valid-type]
            method=method,
            lane=self._lanes.setdefault(lane, Lane(lane, 10_000)),
            is_coroutine=inspect.iscoroutinefunction(method),
            take=take,
            error_ext=None if request.answer is Empty else {},
        )
        self._table[request.code] = self._by_digits[b"%d" % request.code] = route
        beginning = _CODE_FIRST + b'%d,"' % request.code
        if _BEGINNING_SIZE <= len(beginning) <= _BEGINNING_SIZE + 1:
            self._by_beginning[beginning[:_BEGINNING_SIZE]] = route

    @property
    def requests(self) -> dict[int, type[Request[Any]]]:
        """What is answered, by code."""
        return {code: route.request for code, route in self._table.items()}

    def answer(self, frame: Frame, connection: "Connection") -> Answer | None:
        """Returns the answer as a frame; None if there is none, or if it will be sent when it is ready.

        An answer to a call of our own goes to who made it. ProtocolError if the header cannot be read.
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
                    # Not as declared; what follows is more patient, and says what is wrong.
                    pass
                else:
                    if not request.flag & ANSWER_BIT:
                        # Whatever a header with our own names for them has put there.
                        request.body = body
                        request.serialization = JSON
                        request.origin = connection
                        take = route.take
                        if take is None:
                            return self._answer(route, request, header)
                        try:
                            if take(request):
                                return None
                        except Exception as error:
                            return _failed(request, error, route.error_ext)
                        return self._answer(route, request)
        elif serialization == BINARY:
            return self._answer_binary(frame, connection)
        command = decode(frame)
        if command.flag & ANSWER_BIT:
            connection.take_answer(command)
            return None
        return self._answer_command(command, connection)

    def _answer_binary(self, frame: Frame, connection: "Connection") -> Answer | None:
        """The same of a binary header, without a command in between."""
        _, header, body = frame
        typed: Request[Any] | None = None
        fields: ExtFields = None
        try:
            known = self._shapes.read(header)
            if known is not None:
                code, language, version, opaque, flag, typed = known
            else:
                code, language, version, opaque, flag, _, fields = binary.decode(header)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"header cannot be read: {error}") from error
        if flag & ANSWER_BIT:
            connection.take_answer(decode(frame))
            return None
        request: Incoming[Any] = Incoming(
            code=code,
            opaque=opaque,
            flag=flag,
            version=version,
            language=language,
            header=cast("Request[Any]", typed),
            body=body,
            serialization=BINARY,
            origin=connection,
        )
        if typed is None:
            return self._answer_fields(request, fields, header)
        return self._offer(self._table[code], request)

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
        """Answers a request whose fields are still to be read; others like a binary header are read faster then."""
        route = self._table.get(request.code)
        if route is None:
            return _failed(request, RequestCodeNotSupported(f" request type {request.code} not supported"), None)
        try:
            request.header = route.request.decode(fields)
        except SystemFailure as error:
            return _failed(request, error, route.error_ext)
        if learnt:
            self._shapes.learn(learnt, request.header, request.language, request.version)
        return self._offer(route, request)

    def _offer(self, route: _Route, request: Incoming[Any]) -> Answer | None:
        """Answers a request unless it is taken, to be answered with others."""
        try:
            if route.take is not None and route.take(request):
                return None
        except Exception as error:
            return _failed(request, error, route.error_ext)
        return self._answer(route, request)

    def _answer(self, route: _Route, request: Incoming[Any], header: bytes = b"") -> Answer | None:
        try:
            if route.is_coroutine:
                _start(route, request, None)
                return None
            reply = route.method(request)
            if type(reply) is not Reply:
                if type(reply) is Written:
                    return reply.answer
                if not isinstance(reply, Later):
                    _start(route, request, reply)
                return None
            if request.flag & ONEWAY_BIT:
                return None
            if reply.header is None and request.serialization == JSON and not reply.code and reply.remark is None:
                if reply.again is not None:
                    self._remember(header, request.opaque, reply)
                return plain_answer(request.opaque, reply.body)
            return _encoded(request, reply)
        except Exception as error:
            return _failed(request, error, route.error_ext)

    def _remember(self, header: bytes, opaque: int, reply: Reply[Any]) -> None:
        if self.repeated is None:
            self.repeated = RepeatedQuestions()
        assert reply.again is not None
        self.repeated.remember(header, opaque, reply.body, reply.again)


def _answers_in(hint: Any) -> set[Any]:
    """Returns the headers that a method may answer with, by what it says it returns."""
    if typing.get_origin(hint) in (Reply, Later, Written):
        return set(typing.get_args(hint))
    return set().union(*map(_answers_in, typing.get_args(hint)))


def _start(route: _Route, request: Incoming[Any], reply: Awaitable[Reply[Any]] | None) -> None:
    """Begins the task that answers, which asks the method for what to wait for if that is not yet known."""
    is_admitted = False
    try:
        route.lane.enter()
        is_admitted = True
        request.connection.carry(_carry_out(route, request, reply))
    except BaseException:
        if is_admitted:
            route.lane.leave()
        if inspect.iscoroutine(reply):
            reply.close()
        raise


async def _carry_out(route: _Route, request: Incoming[Any], waiting: Awaitable[Reply[Any]] | None) -> None:
    connection, lane = request.connection, route.lane
    try:
        if waiting is None:
            if not connection.is_writable:
                # What it would answer must not pile up upon what the peer has not read.
                lane.park()
                try:
                    await connection.turn()
                finally:
                    lane.resume()
            waiting = route.method(request)
        reply = await waiting
        answer = None if request.flag & ONEWAY_BIT else _encoded(request, reply)
    except Exception as error:
        answer = _failed(request, error, route.error_ext)
    finally:
        lane.leave()
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
    """Turns whatever a method raised into the answer that says so."""
    if isinstance(error, ProtocolError):
        error = SystemFailure(str(error))
    if not isinstance(error, AnswerError):
        log.error("request %d failed", request.code, exc_info=error)
        error = SystemFailure(f"{type(error).__name__}: {error}")
    if request.flag & ONEWAY_BIT:
        log.debug("oneway request %d refused: %s", request.code, error)
        return None
    return encode_answer(request.serialization, request.opaque, error.code, error.remark, ext, b"")
