"""A popping consumer for tests."""

import asyncio
from typing import Any

from kerolox.broker.errors import PollingTimeout
from kerolox.broker.pop.receipt_handle import ReceiptHandle
from kerolox.message.message import Message
from kerolox.message.records.record import decode_all
from kerolox.runtime.clock import ManualClock
from kerolox.wire.headers.pop import AckMessage, ChangeMessageInvisibleTime, InvisibleTimeChanged, PopMessage, Popped
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture

INVISIBLE_MILLIS = 10_000
GROUP = "group"


def popping(topic: str, **fields: Any) -> PopMessage:
    defaults: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": topic,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": INVISIBLE_MILLIS,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return PopMessage(**(defaults | fields))


class Popper:
    """A consumer that pops, on a broker with a manual clock."""

    def __init__(self, broker: BrokerFixture, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock

    async def advance(self, seconds: float) -> None:
        """Advance the clock second by second, and wait after each until messages are revived."""
        left = seconds
        while left > 0:
            await self.clock.advance(min(left, 1))
            left -= 1
            while self.broker.broker.pop.revive.is_working:
                await asyncio.sleep(0)

    async def request(self, topic: str, **fields: Any) -> Reply[Popped]:
        return await self.broker.call(popping(topic, **fields), seconds=30)

    async def pop(self, topic: str, **fields: Any) -> list[tuple[Message, ReceiptHandle]]:
        """Return messages with receipt handles, built as clients build them; an empty list if none was popped."""
        try:
            reply = await self.request(topic, **fields)
        except PollingTimeout:
            return []
        return received(reply, self.broker.broker.settings.broker.broker_name)

    async def bodies(self, topic: str, **fields: Any) -> list[bytes]:
        return [message.body for message, _ in await self.pop(topic, **fields)]

    async def ack(self, topic: str, receipt: ReceiptHandle, offset: int, group: str = GROUP) -> None:
        await self.broker.call(
            AckMessage(
                consumer_group=group,
                topic=real(topic, receipt, group),
                queue_id=receipt.queue_id,
                extra_info=str(receipt),
                offset=offset,
            )
        )

    async def change(
        self, topic: str, receipt: ReceiptHandle, invisible_time: int, **fields: Any
    ) -> Reply[InvisibleTimeChanged]:
        return await self.broker.call(
            ChangeMessageInvisibleTime(
                consumer_group=GROUP,
                topic=real(topic, receipt, GROUP),
                queue_id=receipt.queue_id,
                extra_info=str(receipt),
                offset=receipt.queue_offset,
                invisible_time=invisible_time,
                **fields,
            )
        )


def real(topic: str, receipt: ReceiptHandle, group: str) -> str:
    return {"0": topic, "1": f"%RETRY%{group}_{topic}", "2": f"%RETRY%{group}+{topic}"}[receipt.mark]


def received(reply: Reply[Popped], broker_name: str) -> list[tuple[Message, ReceiptHandle]]:
    fields = reply.fields
    starts: dict[tuple[str, str], int] = {}
    for entry in (fields.start_offset_info or "").split(";"):
        mark, queue_id, start = entry.split(" ")
        starts[mark, queue_id] = int(start)
    found = []
    for message in decode_all(reply.body):
        handle = message.get("POP_CK")
        if handle is not None:
            parts = handle.split(" ")
            start_offset, pop_time, invisible_time, revive_queue_id = map(int, parts[:4])
            receipt = ReceiptHandle(
                start_offset,
                pop_time,
                invisible_time,
                revive_queue_id,
                parts[4],
                parts[5],
                int(parts[6]),
                int(parts[7]),
            )
        else:
            receipt = ReceiptHandle(
                starts["0", str(message.queue_id)],
                fields.pop_time,
                fields.invisible_time,
                fields.revive_qid,
                "0",
                broker_name,
                message.queue_id,
                message.queue_offset,
            )
        found.append((message, receipt))
    return found
