"""Fills a cluster with messages, dead letters and traces for the dashboard."""

import asyncio
import json

from kerolox.admin import AdminClient
from kerolox.client import ConsumeFrom, Message, Producer, PushConsumer, Received, SendResult, Tracing
from kerolox.wire.bodies.groups import SubscriptionGroupConfig

SECONDS = 60


async def send(namesrv_addr: str, *messages: Message) -> list[SendResult]:
    async with Producer("filling", namesrv_addr=namesrv_addr) as producer:
        return [await producer.send(message) for message in messages]


def order(number: int, **more: object) -> Message:
    body = {"order": number, "customer": f"c-{number % 7}", "total": 10 + number, **more}
    return Message("orders", json.dumps(body).encode(), tag="new" if number % 2 else "paid", keys=[f"order-{number}"])


async def dead_letters(namesrv_addr: str, group: str, *messages: Message) -> None:
    """Send messages and make a group fail to consume them, so that they become its dead letters."""
    async with AdminClient(namesrv_addr=namesrv_addr) as admin:
        await admin.groups.create(SubscriptionGroupConfig(group_name=group, retry_max_times=0))
        await send(namesrv_addr, *messages)

        async def fail(messages: list[Received]) -> None:
            raise ValueError("no stock")

        consumer = PushConsumer(
            group,
            fail,
            topics=messages[0].topic,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            max_reconsume_times=0,
            namesrv_addr=namesrv_addr,
        )
        async with consumer, asyncio.timeout(SECONDS):
            while await count(admin, f"%DLQ%{group}") < len(messages):
                await asyncio.sleep(0.05)


async def traced(namesrv_addr: str, group: str, message: Message) -> SendResult:
    """Send a message that its producer and a consumer trace, and return when the traces are stored."""
    async with AdminClient(namesrv_addr=namesrv_addr) as admin:
        got = asyncio.Event()

        async def handle(messages: list[Received]) -> None:
            got.set()

        async with asyncio.timeout(SECONDS):
            async with Tracing(namesrv_addr=namesrv_addr) as tracing:
                async with Producer("shop", namesrv_addr=namesrv_addr, hooks=[tracing]) as producer:
                    result = await producer.send(message)
                consumer = PushConsumer(
                    group,
                    handle,
                    topics=message.topic,
                    consume_from=ConsumeFrom.FIRST_OFFSET,
                    hooks=[tracing],
                    namesrv_addr=namesrv_addr,
                )
                async with consumer:
                    await got.wait()
            while len(await admin.traces.of_message(result.message_id)) < 3:
                await asyncio.sleep(0.05)
    return result


async def count(admin: AdminClient, topic: str) -> int:
    if topic not in await admin.topics.names():
        return 0
    return sum(it.max_offset - it.min_offset for it in (await admin.topics.status(topic)).values())
