"""Receipts of popped messages (POP_CK): by which a consumer says which message it means, and where that lies."""

from dataclasses import dataclass
from typing import Final, Self

from kerolox.client.errors import ClientError
from kerolox.client.names import RETRY_PREFIX
from kerolox.message import names
from kerolox.message.message import Message as Record
from kerolox.wire.headers.pop import InvisibleTimeChanged, Popped

_NORMAL: Final = "0"
# How the retry topic of a group and a topic is named, by its mark.
_SEPARATORS = {"1": "_", "2": "+"}


@dataclass(frozen=True, slots=True)
class Receipt:
    """The fields in the order of the text, which are parted by spaces."""

    start_offset: int
    pop_millis: int
    invisible_millis: int
    revive_queue_id: int
    # 0 the topic itself, 1 and 2 those where its messages come again.
    mark: str
    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return (
            f"{self.start_offset} {self.pop_millis} {self.invisible_millis} {self.revive_queue_id} "
            f"{self.mark} {self.broker_name} {self.queue_id} {self.queue_offset}"
        )

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Returns what a receipt says; ClientError if it is none."""
        parts = (text or "").split(" ")
        try:
            start, popped, invisible, revive, mark, broker_name, queue_id, queue_offset = parts
            return cls(
                int(start),
                int(popped),
                int(invisible),
                int(revive),
                mark,
                broker_name,
                int(queue_id),
                int(queue_offset),
            )
        except ValueError as error:
            raise ClientError(f"{text!r} is no receipt: was the message received by a SimpleConsumer?") from error

    def topic(self, topic: str, group: str) -> str:
        """Returns where the message lies: in the topic, or where messages of it come again for the group."""
        separator = _SEPARATORS.get(self.mark)
        return topic if separator is None else f"{RETRY_PREFIX}{group}{separator}{topic}"

    def renewed(self, changed: InvisibleTimeChanged) -> "Receipt":
        """Returns the receipt that takes the place of this one when the invisible time is changed."""
        return Receipt(
            self.queue_offset,
            changed.pop_time,
            changed.invisible_time,
            changed.revive_qid,
            self.mark,
            self.broker_name,
            self.queue_id,
            self.queue_offset,
        )


def receipts(popped: Popped, records: list[Record], broker_name: str) -> list[str]:
    """Returns the receipt of each message: as the broker wrote it, or made of where the pop began in its queue."""
    starts = _starts(popped.start_offset_info)
    made: list[str] = []
    for record in records:
        given = record.get(names.POP_CK)
        if given is None:
            key = (_mark(record.topic), record.queue_id)
            # Without the broker's word for it, a pop begins with its first message.
            start = starts.setdefault(key, record.queue_offset)
            given = str(
                Receipt(
                    start,
                    popped.pop_time,
                    popped.invisible_time,
                    popped.revive_qid,
                    key[0],
                    broker_name,
                    record.queue_id,
                    record.queue_offset,
                )
            )
        made.append(given)
    return made


def _starts(info: str | None) -> dict[tuple[str, int], int]:
    """Returns what `0 3 100;1 0 7` says: by mark and queue, the offset at which the pop began."""
    starts: dict[tuple[str, int], int] = {}
    for entry in (info or "").split(";"):
        mark, _, rest = entry.strip().partition(" ")
        queue_id, _, start = rest.partition(" ")
        if start:
            starts[mark, int(queue_id)] = int(start)
    return starts


def _mark(topic: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return _NORMAL
    return "2" if "+" in topic else "1"


class Times(dict[str, int]):
    """How often messages came before that come in order: by their place, or for all of a queue."""

    def of(self, record: Record) -> int:
        mark, queue_id = _mark(record.topic), record.queue_id
        own = self.get(f"{mark} qo{queue_id}%{record.queue_offset}")
        return own if own is not None else self.get(f"{mark} {queue_id}", record.reconsume_times)


def times_of(info: str | None) -> Times:
    """Returns what `0 3 1;0 qo3%100 2` says: all of queue 3 came once before, and what lies at 100 twice."""
    times = Times()
    for entry in (info or "").split(";"):
        place, _, count = entry.rpartition(" ")
        if place and count.isdecimal():
            times[place] = int(count)
    return times
