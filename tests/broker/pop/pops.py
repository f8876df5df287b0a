"""Shorthands for what popping consumers ask."""

import asyncio
from typing import Any

from kerolox.broker.errors import PollingTimeout
from kerolox.broker.pop.names import Receipt
from kerolox.message.message import Message
from kerolox.message.record import decode_all
from kerolox.runtime.clock import ManualClock
from kerolox.wire.headers.pop import AckMessage, ChangeMessageInvisibleTime, InvisibleTimeChanged, PopMessage, Popped
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture

INVISIBLE_MILLIS = 10_000
GROUP = "group"


def popping(topic: str, **fields: Any) -> PopMessage:
    given: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": topic,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": INVISIBLE_MILLIS,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return PopMessage(**(given | fields))


class Popper:
    """A consumer that pops, on a broker with a clock of the test's."""

    def __init__(self, broker: BrokerFixture, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock

    async def advance(self, seconds: float) -> None:
        """Moves time on, second by second: what is brought back in each is brought back before the next."""
        left = seconds
        while left > 0:
            await self.clock.advance(min(left, 1))
            left -= 1
            while self.broker.broker.pop.revive.is_working:
                await asyncio.sleep(0)

    async def ask(self, topic: str, **fields: Any) -> Reply[Popped]:
        return await self.broker.call(popping(topic, **fields), seconds=30)

    async def pop(self, topic: str, **fields: Any) -> list[tuple[Message, Receipt]]:
        """Returns messages with their receipts, made as clients make them; none if there are none."""
        try:
            reply = await self.ask(topic, **fields)
        except PollingTimeout:
            return []
        return received(reply, self.broker.broker.settings.broker.broker_name)

    async def bodies(self, topic: str, **fields: Any) -> list[bytes]:
        return [message.body for message, _ in await self.pop(topic, **fields)]

    async def ack(self, topic: str, receipt: Receipt, offset: int, group: str = GROUP) -> None:
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
        self, topic: str, receipt: Receipt, invisible_time: int, **fields: Any
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


def real(topic: str, receipt: Receipt, group: str) -> str:
    return {"0": topic, "1": f"%RETRY%{group}_{topic}", "2": f"%RETRY%{group}+{topic}"}[receipt.mark]


def received(reply: Reply[Popped], broker_name: str) -> list[tuple[Message, Receipt]]:
    fields = reply.fields
    starts: dict[tuple[str, str], int] = {}
    for entry in (fields.start_offset_info or "").split(";"):
        mark, queue_id, start = entry.split(" ")
        starts[mark, queue_id] = int(start)
    found = []
    for message in decode_all(reply.body):
        given = message.get("POP_CK")
        if given is not None:
            parts = given.split(" ")
            receipt = Receipt(*map(int, parts[:4]), parts[4], parts[5], int(parts[6]), int(parts[7]))
        else:
            receipt = Receipt(
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
