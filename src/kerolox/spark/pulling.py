"""Reads a range of a queue from its broker, in answers as large as the broker gives them."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError, ProtocolError, RemotingError
from kerolox.spark.channel import Channel
from kerolox.spark.offsets import QueueRange
from kerolox.spark.options import ReadOptions
from kerolox.wire.bodies.clients import SQL92, TAG
from kerolox.wire.command import Command
from kerolox.wire.headers.messages import Pulled, PullMessage

log = logging.getLogger(__name__)

_SUBSCRIPTION_BIT: Final = 4
# How much is asked for in advance of a broker that gives only little at a time.
_PULLS_MAX: Final = 32
_BYTES_AHEAD_MAX: Final = 4 * 1024 * 1024
# How long a queue may be shorter than it was before that is taken for a loss.
_SHORT_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)

_FOUND = frozenset({ResponseCode.SUCCESS.value, ResponseCode.PULL_RETRY_IMMEDIATELY.value})
_NOT_FOUND = ResponseCode.PULL_NOT_FOUND.value
_ANSWERS = _FOUND | {_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED.value}
# What a broker says that will soon be able to answer.
_BUSY = frozenset(
    code.value
    for code in (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
    )
)


_GONE = frozenset({ResponseCode.TOPIC_NOT_EXIST.value, ResponseCode.INVALID_PARAMETER.value})
# A broker without enablePropertyFilter says so with the same code as if something had gone wrong.
_UNSUPPORTED = "does not support"
REMEDY: Final = "To go on without them set option failOnDataLoss to false"


class DataLost(KeroloxError):
    """Messages that were to be read are not there any more."""


class Unreadable(KeroloxError):
    """A queue that could not be read for so long that it was given up."""


# Where a broker is now, asked for when it is not where it was.
Find = Callable[[QueueRange], str | None]


class Chunk(NamedTuple):
    """Whole records, of which those between the two offsets are meant."""

    records: bytes
    start: int
    end: int


class Puller:
    """Reads ranges one after the other; one for each task, since it has connections."""

    def __init__(self, options: ReadOptions, find: Find, addresses: Mapping[str, str] | None = None) -> None:
        self._options = options
        self._find = find
        self._addresses = dict(addresses or {})
        self._channels: dict[str, Channel] = {}
        # How many messages of each range were given up, with a line in the log.
        self.lost: Counter[QueueRange] = Counter()
        # Whether the NameServer still has the queue that could not be read.
        self._is_listed = True

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def read(self, part: QueueRange) -> Iterator[Chunk]:
        """Yields all records of the range in their order.

        Such as have another tag with the same hash may come with them. DataLost if some are gone, unless
        failOnDataLoss is off: then they are passed over. Unreadable if the broker does not answer for so long as
        retryTimeout says, AnswerError if it refuses.
        """
        reading = _Reading(self._options, part)
        last_progress, failures = time.monotonic(), 0
        while not reading.is_done:
            try:
                for chunk in reading.chunks(self._channel(part)):
                    last_progress, failures = time.monotonic(), 0
                    if chunk.records:
                        yield chunk
            except (RemotingError, ProtocolError, AnswerError) as error:
                self._drop(part.broker_name)
                self._consider(reading, error, time.monotonic() - last_progress)
                time.sleep(_PAUSE_SECONDS[min(failures, len(_PAUSE_SECONDS) - 1)])
                failures += 1
                self._look_up(part)
            except GeneratorExit:
                # Answers are under way that nobody will read.
                self._drop(part.broker_name)
                raise
        self.lost[part] = reading.lost

    def _consider(self, reading: "_Reading", error: KeroloxError, seconds: float) -> None:
        """Returns if it is worth to try again; raises if it is not, or if it was tried for long enough."""
        if isinstance(error, AnswerError) and error.code in _GONE and not self._options.fail_on_data_loss:
            reading.lose(reading.part.end, str(error))
            return
        if isinstance(error, AnswerError) and (error.code not in _BUSY or _UNSUPPORTED in (error.remark or "")):
            raise _refused(reading.part, error, self._options) from error
        if isinstance(error, _TooShort):
            if seconds >= min(_SHORT_SECONDS, self._options.connect.retry_millis / 1000):
                reading.lose(reading.part.end, f"the queue ends at offset {error.end}")
            return
        if seconds * 1000 >= self._options.connect.retry_millis:
            if not self._is_listed:
                reading.lose(reading.part.end, "no NameServer has the queue any more")
                return
            raise Unreadable(
                f"{named(reading.part)} cannot be read at offset {reading.offset}: {error}. Is the broker up? It was "
                f"tried for {self._options.connect.retry_millis} ms (option retryTimeout)"
            ) from error
        log.warning("%s is tried again at offset %d: %s", named(reading.part), reading.offset, error)

    def _channel(self, part: QueueRange) -> Channel:
        channel = self._channels.get(part.broker_name)
        if channel is None:
            address = self._addresses.get(part.broker_name) or self._look_up(part)
            if address is None:
                raise RemotingError(f"no address of broker {part.broker_name} is known")
            channel = Channel(address, self._options.connect, self._options.pull_millis / 1000)
            self._channels[part.broker_name] = channel
        return channel

    def _drop(self, broker_name: str) -> None:
        channel = self._channels.pop(broker_name, None)
        if channel is not None:
            channel.close()

    def _look_up(self, part: QueueRange) -> str | None:
        """Asks where the broker is; where that cannot be found out, it stays where it was."""
        try:
            address = self._find(part)
            self._is_listed = address is not None
        except KeroloxError as error:
            log.warning("nobody says where broker %s is: %s", part.broker_name, error)
            address = None
        if address is not None:
            self._addresses[part.broker_name] = address
        return self._addresses.get(part.broker_name)


class _TooShort(RemotingError):
    """The queue ends before the range does. It may yet grow: a replica catches up, a store is being rebuilt."""

    def __init__(self, end: int) -> None:
        super().__init__(f"the queue ends at offset {end}")
        self.end = end


@dataclass(slots=True)
class _Pull:
    """One that is under way, or whose answer has come before its turn."""

    offset: int
    end: int
    opaque: int
    answer: tuple[Command, bytes] | None = None


class _Reading:
    """How far a range was read. `offset` is the first of which nothing has been handed out."""

    def __init__(self, options: ReadOptions, part: QueueRange) -> None:
        self._options = options
        self.part = part
        self.offset = part.start
        # How many messages were given up, and up to where: pulls that are under way may say the same again.
        self.lost = 0
        self._lost_up_to = part.start
        # How many messages come at a time from a broker that gives less than it is asked for, once that is known.
        self._step: int | None = None
        self._size_max = 1

    @property
    def is_done(self) -> bool:
        return self.offset >= self.part.end

    def chunks(self, channel: Channel) -> Iterator[Chunk]:
        """Yields a chunk for each answer, perhaps an empty one."""
        if self._step is None:
            yield from self._chained(channel)
        if self._step is not None:
            yield from self._ahead(channel, self._step)

    def _chained(self, channel: Channel) -> Iterator[Chunk]:
        """Asks for the next before it reads the body of the last, so that the broker need not wait for us.

        Ends early if the broker gives only a little of what it is asked for, and that can be foretold.
        """
        options, (_, _, _, start, end) = self._options, self.part
        count = self._ask(channel, self.offset, end)[1]
        while not self.is_done:
            command, size = channel.head()
            after = self._judged(command, self.offset)
            is_little = after - self.offset < count and size < options.pull_bytes // 2 and after < end
            if is_little and options.tags is None and options.sql is None:
                self._step, self._size_max = after - self.offset, max(size, 1)
            elif after < end:
                count = self._ask(channel, after, end)[1]
            records = channel.body(size)
            self.offset = after
            yield Chunk(records, start, end)
            if self._step is not None:
                return

    def _ahead(self, channel: Channel, step: int) -> Iterator[Chunk]:
        """Has many small pulls under way at the same time, each for what one is likely to bring."""
        end = self.part.end
        step_max, next_offset = step, self.offset
        pulls: deque[_Pull] = deque()
        while not self.is_done:
            while next_offset < end and len(pulls) < max(2, min(_PULLS_MAX, _BYTES_AHEAD_MAX // self._size_max)):
                stop = min(next_offset + step, end)
                pulls.append(_Pull(next_offset, stop, self._ask(channel, next_offset, stop)[0]))
                next_offset = stop
            pull = pulls[0]
            command, records = _answer(channel, pulls)
            after = self._judged(command, pull.offset)
            # What it brought beyond its end comes again with the next.
            chunk = Chunk(records, pull.offset, pull.end)
            self.offset = min(after, pull.end)
            self._size_max = max(self._size_max, len(records))
            if after < pull.end:
                # The rest of what it asked for comes before what was asked for after it.
                step = max(after - pull.offset, 1)
                step_max = max(step, step_max)
                pull.offset, pull.answer = after, None
                pull.opaque = self._ask(channel, after, pull.end)[0]
            else:
                step = min(step * 2, step_max)
                pulls.popleft()
            yield chunk

    def _ask(self, channel: Channel, offset: int, end: int) -> tuple[int, int]:
        """Returns the number of the request, and how many messages it asks for."""
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
        return channel.ask(request), count

    def _judged(self, command: Command, offset: int) -> int:
        """Returns where to go on after an answer; raises if it says that that is nowhere."""
        if command.code not in _ANSWERS:
            raise AnswerError.of(command.code, command.remark)
        pulled = Pulled.decode(command.ext)
        after, first, end = pulled.next_begin_offset, pulled.min_offset, pulled.max_offset
        if command.code in _FOUND:
            if after > offset:
                return after
        elif offset < first:
            return self._lost(offset, min(first, self.part.end), f"the queue begins at offset {first} now")
        elif offset >= end:
            raise _TooShort(end)
        elif command.code == _NOT_FOUND and after > offset:
            # Its entries end with a file, and go on in a later one.
            return after
        # Its group was told to go on elsewhere, which concerns those who consume.
        raise RemotingError(f"the broker says {command.remark} of offset {offset}")

    def lose(self, end: int, reason: str) -> None:
        """Gives up what lies before `end`; DataLost if nothing must get lost."""
        self.offset = self._lost(self.offset, end, reason)

    def _lost(self, offset: int, end: int, reason: str) -> int:
        what = f"offsets {offset} to {end - 1} of {named(self.part)} are lost: {reason}"
        if self._options.fail_on_data_loss:
            raise DataLost(f"{what}. {REMEDY}")
        log.warning("%s", what)
        self.lost += max(end - max(offset, self._lost_up_to), 0)
        self._lost_up_to = max(end, self._lost_up_to)
        return end


def _answer(channel: Channel, pulls: Iterable[_Pull]) -> tuple[Command, bytes]:
    """Returns the answer to the first, and keeps what comes for the others meanwhile."""
    waiting = {pull.opaque: pull for pull in pulls}
    first = next(iter(waiting.values()))
    while first.answer is None:
        command, size = channel.head()
        body = channel.body(size)
        if command.opaque in waiting:
            waiting[command.opaque].answer = command, body
    return first.answer


def named(part: QueueRange) -> str:
    return f"queue {part.queue_id} of topic {part.topic} on broker {part.broker_name}"


def _refused(part: QueueRange, error: AnswerError, options: ReadOptions) -> KeroloxError:
    """Returns what a broker's refusal means to who reads."""
    remedies = {
        ResponseCode.NO_PERMISSION.value: "check what topic and group allow, and options accessKey and secretKey",
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST.value: f"create group {options.pull_group}, or change option groupId",
        ResponseCode.SUBSCRIPTION_PARSE_FAILED.value: "check options tags and sql",
        ResponseCode.SYSTEM_ERROR.value: "set enablePropertyFilter=true on the broker, or use option tags",
        ResponseCode.INVALID_PARAMETER.value: "does the topic have fewer queues now? See option failOnDataLoss",
        ResponseCode.TOPIC_NOT_EXIST.value: "was it deleted? Set option failOnDataLoss to false to go on without it",
    }
    remedy = remedies.get(error.code)
    return Unreadable(f"{named(part)} is not given out: {error}" + (f": {remedy}" if remedy else ""))
