"""Receipt handles (POP_CK), which identify a popped message and its position (ExtraInfoUtil)."""

from dataclasses import dataclass
from typing import Final, Self

from kerolox.client.errors import ClientError
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.message import property_names
from kerolox.message.message import Message as Record
from kerolox.wire.headers.pop import InvisibleTimeChanged, Popped

_NORMAL: Final = "0"
# By mark, the separator between group and topic in the name of a pop retry topic (KeyBuilder).
_SEPARATORS = {"1": "_", "2": "+"}


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """The fields in the order of the text, where they are separated by spaces."""

    start_offset: int
    pop_millis: int
    invisible_millis: int
    revive_queue_id: int
    # 0 for the topic itself, 1 and 2 for its retry topics.
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
        """Parse a receipt handle; raise ClientError if it is malformed."""
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
            raise ClientError(
                f"{text!r} is not a receipt handle: was the message received by a SimpleConsumer?"
            ) from error

    def topic(self, topic: str, group: str) -> str:
        """Return the topic that stores the message: `topic`, or a pop retry topic of the group."""
        separator = _SEPARATORS.get(self.mark)
        return topic if separator is None else f"{RETRY_PREFIX}{group}{separator}{topic}"

    def renewed(self, changed: InvisibleTimeChanged) -> "ReceiptHandle":
        """Return the receipt handle that replaces this one after the invisible time was changed."""
        return ReceiptHandle(
            self.queue_offset,
            changed.pop_time,
            changed.invisible_time,
            changed.revive_qid,
            self.mark,
            self.broker_name,
            self.queue_id,
            self.queue_offset,
        )


def receipt_handles(popped: Popped, records: list[Record], broker_name: str) -> list[str]:
    """Return the receipt handle of each message: its POP_CK property, or one built from the pop response."""
    starts = _parse_start_offset_info(popped.start_offset_info)
    handles: list[str] = []
    for record in records:
        handle = record.get(property_names.POP_CK)
        if handle is None:
            key = (_mark(record.topic), record.queue_id)
            # If the response does not contain it, the start offset is that of the first message.
            start = starts.setdefault(key, record.queue_offset)
            handle = str(
                ReceiptHandle(
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
        handles.append(handle)
    return handles


def _parse_start_offset_info(info: str | None) -> dict[tuple[str, int], int]:
    """Parse `0 3 100;1 0 7`: (mark, queue id) → the offset at which the pop began."""
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


class ReconsumeTimes(dict[str, int]):
    """Reconsume times of ordered pops: per message, or for all messages of a queue."""

    def of(self, record: Record) -> int:
        mark, queue_id = _mark(record.topic), record.queue_id
        own = self.get(f"{mark} qo{queue_id}%{record.queue_offset}")
        return own if own is not None else self.get(f"{mark} {queue_id}", record.reconsume_times)


def parse_order_count_info(info: str | None) -> ReconsumeTimes:
    """Parse `0 3 1;0 qo3%100 2`: messages of queue 3 were delivered once before, that at offset 100 twice."""
    times = ReconsumeTimes()
    for entry in (info or "").split(";"):
        key, _, count = entry.rpartition(" ")
        if key and count.isdecimal():
            times[key] = int(count)
    return times
