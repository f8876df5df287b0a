"""Pulls ranges of queues from their brokers, with responses as large as the broker allows."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError, ProtocolError, RemotingError
from kerolox.spark.options import ReadOptions
from kerolox.spark.read.blocking_connection import BlockingConnection
from kerolox.spark.read.offset_json import QueueRange
from kerolox.wire.bodies.clients import SQL92, TAG
from kerolox.wire.command import Command
from kerolox.wire.headers.messages import Pulled, PullMessage

log = logging.getLogger(__name__)

_SUBSCRIPTION_BIT: Final = 4
# Limits on pipelined pulls, for a broker that returns only a few messages at a time.
_PULLS_IN_FLIGHT_MAX: Final = 32
_BYTES_IN_FLIGHT_MAX: Final = 4 * 1024 * 1024
# How long a queue may end before the range does until the messages count as lost.
_TOO_SHORT_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)

_FOUND_CODES = frozenset({ResponseCode.SUCCESS.value, ResponseCode.PULL_RETRY_IMMEDIATELY.value})
_NOT_FOUND = ResponseCode.PULL_NOT_FOUND.value
_EXPECTED_CODES = _FOUND_CODES | {_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED.value}
# Codes of a temporary failure.
_BUSY_CODES = frozenset(
    code.value
    for code in (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
    )
)


_GONE_CODES = frozenset({ResponseCode.TOPIC_NOT_EXIST.value, ResponseCode.INVALID_PARAMETER.value})
# A broker without enablePropertyFilter responds with SYSTEM_ERROR, which otherwise is temporary; its remark differs.
_UNSUPPORTED_REMARK = "does not support"
DATA_LOSS_REMEDY: Final = "To continue without them set option failOnDataLoss to false"


class DataLost(KeroloxError):
    """Messages that should be read no longer exist."""


class Unreadable(KeroloxError):
    """A queue could not be read within retryTimeout, or its broker refused."""


# Returns the current address of the broker of a range; None if the queue no longer exists.
FindBroker = Callable[[QueueRange], str | None]


class Chunk(NamedTuple):
    """Whole records; only those with a queue offset from `start` to before `end` belong to the range."""

    records: bytes
    start: int
    end: int


class QueueReader:
    """Reads ranges one after the other, over its own connections; one per task."""

    def __init__(
        self, options: ReadOptions, find_broker: FindBroker, addresses: Mapping[str, str] | None = None
    ) -> None:
        self._options = options
        self._find_broker = find_broker
        self._addresses = dict(addresses or {})
        self._connections: dict[str, BlockingConnection] = {}
        # Number of messages lost per range (failOnDataLoss is false); each loss is logged.
        self.lost: Counter[QueueRange] = Counter()
        # Whether the NameServers still list the queue that failed.
        self._is_listed = True

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def read(self, part: QueueRange) -> Iterator[Chunk]:
        """Yield all records of the range in queue order.

        With option tags, messages with another tag of the same hash are included: brokers compare hashes. DataLost
        if messages no longer exist, unless failOnDataLoss is false: then they are skipped. Unreadable if the broker
        does not respond within retryTimeout, or refuses.
        """
        progress = _RangeProgress(self._options, part)
        last_progress, failures = time.monotonic(), 0
        while not progress.is_done:
            try:
                for chunk in progress.chunks(self._connection(part)):
                    last_progress, failures = time.monotonic(), 0
                    if chunk.records:
                        yield chunk
            except (RemotingError, ProtocolError, AnswerError) as error:
                self._drop(part.broker_name)
                self._check_retry(progress, error, time.monotonic() - last_progress)
                time.sleep(_PAUSE_SECONDS[min(failures, len(_PAUSE_SECONDS) - 1)])
                failures += 1
                self._look_up(part)
            except GeneratorExit:
                # Responses in flight would be read as those of the next range.
                self._drop(part.broker_name)
                raise
        self.lost[part] = progress.lost

    def _check_retry(self, progress: "_RangeProgress", error: KeroloxError, seconds: float) -> None:
        """Return if the pull should be retried; raises if the error is permanent or retryTimeout has passed."""
        if isinstance(error, AnswerError) and error.code in _GONE_CODES and not self._options.fail_on_data_loss:
            progress.skip_lost(progress.part.end, str(error))
            return
        if isinstance(error, AnswerError) and (
            error.code not in _BUSY_CODES or _UNSUPPORTED_REMARK in (error.remark or "")
        ):
            raise _refusal(progress.part, error, self._options) from error
        if isinstance(error, _QueueTooShort):
            if seconds >= min(_TOO_SHORT_SECONDS, self._options.connection.retry_millis / 1000):
                progress.skip_lost(progress.part.end, f"the queue ends at offset {error.end}")
            return
        queue = describe_queue(progress.part)
        if seconds * 1000 >= self._options.connection.retry_millis:
            if not self._is_listed:
                progress.skip_lost(progress.part.end, "no NameServer lists the queue any more")
                return
            raise Unreadable(
                f"{queue} cannot be read at offset {progress.offset}: {error}. Is the broker up? It was retried for "
                f"{self._options.connection.retry_millis} ms (option retryTimeout)"
            ) from error
        log.warning("pull from %s at offset %d failed and is retried: %s", queue, progress.offset, error)

    def _connection(self, part: QueueRange) -> BlockingConnection:
        connection = self._connections.get(part.broker_name)
        if connection is None:
            address = self._addresses.get(part.broker_name) or self._look_up(part)
            if address is None:
                raise RemotingError(f"the address of broker {part.broker_name} is unknown")
            connection = BlockingConnection(address, self._options.connection, self._options.pull_millis / 1000)
            self._connections[part.broker_name] = connection
        return connection

    def _drop(self, broker_name: str) -> None:
        connection = self._connections.pop(broker_name, None)
        if connection is not None:
            connection.close()

    def _look_up(self, part: QueueRange) -> str | None:
        """Look up the broker's address again; on failure the last known one is kept."""
        try:
            address = self._find_broker(part)
            self._is_listed = address is not None
        except KeroloxError as error:
            log.warning("address of broker %s cannot be looked up: %s", part.broker_name, error)
            address = None
        if address is not None:
            self._addresses[part.broker_name] = address
        return self._addresses.get(part.broker_name)


class _QueueTooShort(RemotingError):
    """The queue ends before the range does. It may still grow: a replica catches up, a store is being rebuilt."""

    def __init__(self, end: int) -> None:
        super().__init__(f"the queue ends at offset {end}")
        self.end = end


@dataclass(slots=True)
class _Pull:
    """A pull in flight, or one whose response arrived before its turn."""

    offset: int
    end: int
    opaque: int
    response: tuple[Command, bytes] | None = None


class _RangeProgress:
    """The progress within a range. `offset` is the first offset that was not yielded yet."""

    def __init__(self, options: ReadOptions, part: QueueRange) -> None:
        self._options = options
        self.part = part
        self.offset = part.start
        # Number of lost messages, and their end: pipelined pulls may report the same loss again.
        self.lost = 0
        self._lost_up_to = part.start
        # Messages per response of a broker that returns fewer than requested; None until that is known.
        self._response_count: int | None = None
        self._response_size_max = 1

    @property
    def is_done(self) -> bool:
        return self.offset >= self.part.end

    def chunks(self, connection: BlockingConnection) -> Iterator[Chunk]:
        """Yield a chunk for each response, perhaps an empty one."""
        if self._response_count is None:
            yield from self._pull_in_sequence(connection)
        if self._response_count is not None:
            yield from self._pull_ahead(connection, self._response_count)

    def _pull_in_sequence(self, connection: BlockingConnection) -> Iterator[Chunk]:
        """Send the next pull before it reads the body of the last response, so that the broker need not wait.

        Returns early if the broker returns only a small part of what was requested, and no filter makes that vary.
        """
        options, (_, _, _, start, end) = self._options, self.part
        count = self._send_pull(connection, self.offset, end)[1]
        while not self.is_done:
            command, size = connection.read_header()
            after = self._next_offset(command, self.offset)
            is_small = after - self.offset < count and size < options.pull_bytes // 2 and after < end
            if is_small and options.tags is None and options.sql is None:
                self._response_count, self._response_size_max = after - self.offset, max(size, 1)
            elif after < end:
                count = self._send_pull(connection, after, end)[1]
            records = connection.read_body(size)
            self.offset = after
            yield Chunk(records, start, end)
            if self._response_count is not None:
                return

    def _pull_ahead(self, connection: BlockingConnection, step: int) -> Iterator[Chunk]:
        """Keep many small pulls in flight, each for the number of messages that one response is expected to hold."""
        end = self.part.end
        step_max, next_offset = step, self.offset
        pulls: deque[_Pull] = deque()
        while not self.is_done:
            while next_offset < end and len(pulls) < max(
                2, min(_PULLS_IN_FLIGHT_MAX, _BYTES_IN_FLIGHT_MAX // self._response_size_max)
            ):
                stop = min(next_offset + step, end)
                pulls.append(_Pull(next_offset, stop, self._send_pull(connection, next_offset, stop)[0]))
                next_offset = stop
            pull = pulls[0]
            command, records = _first_response(connection, pulls)
            after = self._next_offset(command, pull.offset)
            # Records beyond its end come again with the next pull.
            chunk = Chunk(records, pull.offset, pull.end)
            self.offset = min(after, pull.end)
            self._response_size_max = max(self._response_size_max, len(records))
            if after < pull.end:
                # Request the rest of this pull before the responses of later pulls are yielded.
                step = max(after - pull.offset, 1)
                step_max = max(step, step_max)
                pull.offset, pull.response = after, None
                pull.opaque = self._send_pull(connection, after, pull.end)[0]
            else:
                step = min(step * 2, step_max)
                pulls.popleft()
            yield chunk

    def _send_pull(self, connection: BlockingConnection, offset: int, end: int) -> tuple[int, int]:
        """Send a pull; return its opaque and the number of messages it requests."""
        options = self._options
        count = min(options.pull_count, end - offset)
        request = PullMessage(
            consumer_group=options.pull_group,
            topic=self.part.topic,
            queue_id=self.part.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=_SUBSCRIPTION_BIT,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=options.sql or options.tags or "*",
            sub_version=0,
            expression_type=SQL92 if options.sql else TAG,
            max_msg_bytes=options.pull_bytes,
        )
        return connection.send(request), count

    def _next_offset(self, command: Command, offset: int) -> int:
        """Return the offset to continue at after a response; raises if the response has none."""
        if command.code not in _EXPECTED_CODES:
            raise AnswerError.of(command.code, command.remark)
        pulled = Pulled.decode(command.ext)
        after, first, end = pulled.next_begin_offset, pulled.min_offset, pulled.max_offset
        if command.code in _FOUND_CODES:
            if after > offset:
                return after
        elif offset < first:
            return self._record_loss(offset, min(first, self.part.end), f"the queue begins at offset {first} now")
        elif offset >= end:
            raise _QueueTooShort(end)
        elif command.code == _NOT_FOUND and after > offset:
            # A hole: the consume queue continues in a later file.
            return after
        # For example PULL_OFFSET_MOVED because the offset of the group was reset; that concerns consumers only.
        raise RemotingError(f"unexpected response for offset {offset}: {command.remark}")

    def skip_lost(self, end: int, reason: str) -> None:
        """Skip to `end`; DataLost if failOnDataLoss is true."""
        self.offset = self._record_loss(self.offset, end, reason)

    def _record_loss(self, offset: int, end: int, reason: str) -> int:
        what = f"offsets {offset} to {end - 1} of {describe_queue(self.part)} are lost: {reason}"
        if self._options.fail_on_data_loss:
            raise DataLost(f"{what}. {DATA_LOSS_REMEDY}")
        log.warning("%s", what)
        self.lost += max(end - max(offset, self._lost_up_to), 0)
        self._lost_up_to = max(end, self._lost_up_to)
        return end


def _first_response(connection: BlockingConnection, pulls: Iterable[_Pull]) -> tuple[Command, bytes]:
    """Return the response to the first pull, and store those to the others that arrive before it."""
    waiting = {pull.opaque: pull for pull in pulls}
    first = next(iter(waiting.values()))
    while first.response is None:
        command, size = connection.read_header()
        body = connection.read_body(size)
        if command.opaque in waiting:
            waiting[command.opaque].response = command, body
    return first.response


def describe_queue(part: QueueRange) -> str:
    return f"queue {part.queue_id} of topic {part.topic} on broker {part.broker_name}"


def _refusal(part: QueueRange, error: AnswerError, options: ReadOptions) -> KeroloxError:
    """Return an error with the remedy for a broker's refusal."""
    remedies = {
        ResponseCode.NO_PERMISSION.value: "check permissions of topic and group, and options accessKey and secretKey",
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST.value: f"create group {options.pull_group}, or change option groupId",
        ResponseCode.SUBSCRIPTION_PARSE_FAILED.value: "check options tags and sql",
        ResponseCode.SYSTEM_ERROR.value: "set enablePropertyFilter=true on the broker, or use option tags",
        ResponseCode.INVALID_PARAMETER.value: "does the topic have fewer queues now? See option failOnDataLoss",
        ResponseCode.TOPIC_NOT_EXIST.value: "was it deleted? Set option failOnDataLoss to false to continue without it",
    }
    remedy = remedies.get(error.code)
    return Unreadable(f"{describe_queue(part)} cannot be read: {error}" + (f": {remedy}" if remedy else ""))
