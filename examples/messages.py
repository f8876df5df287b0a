"""Sends orders to a cluster, pulls them and queries one by key. Exits with 0 only if every count agrees."""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from kerolox.errors import AnswerError
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from kerolox.testing import Cluster
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.headers.messages import PullMessage, QueryMessage, SendMessageV2
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic

console = Console()
TOPIC, ORDERS, QUEUES, CONCURRENCY = "orders", 20_000, 4, 256
TAGS = ("paid", "shipped", "returned")
SUBSCRIPTION_IN_REQUEST = 0x4


async def send(client: Client, broker: str, number: int) -> None:
    properties = to_bytes({"KEYS": f"order-{number}", "TAGS": TAGS[number % len(TAGS)]})
    request = SendMessageV2(
        producer_group="shop",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=number % QUEUES,
        sys_flag=0,
        born_timestamp=time.time_ns() // 1_000_000,
        flag=0,
        properties=properties.decode(),
    )
    await client.call(broker, request, b'{"order": %d}' % number, timeout_seconds=30)


async def send_all(client: Client, broker: str, progress: Progress) -> float:
    """Sends the orders concurrently, and returns the duration in seconds."""
    bar = progress.add_task("sending", total=ORDERS)
    # The first message creates the topic.
    await send(client, broker, 0)
    numbers = iter(range(1, ORDERS))

    async def sender() -> None:
        for number in numbers:
            await send(client, broker, number)
            progress.advance(bar)

    started = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(CONCURRENCY)))
    progress.update(bar, completed=ORDERS)
    return time.perf_counter() - started


async def pull_queue(client: Client, broker: str, queue_id: int, tags: str, found: Counter[str]) -> None:
    offset = 0
    while True:
        request = PullMessage(
            consumer_group="reports",
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=SUBSCRIPTION_IN_REQUEST,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=tags,
            sub_version=0,
        )
        try:
            reply = await client.call(broker, request)
        except AnswerError:
            # PULL_NOT_FOUND or PULL_RETRY_IMMEDIATELY: the end of the queue.
            return
        found.update(message.tags or "" for message in decode_all(reply.body, check_crc=True))
        offset = reply.fields.next_begin_offset


async def pull_all(client: Client, broker: str, tags: str) -> Counter[str]:
    found: Counter[str] = Counter()
    await asyncio.gather(*(pull_queue(client, broker, queue_id, tags, found) for queue_id in range(QUEUES)))
    return found


async def main() -> int:
    with tempfile.TemporaryDirectory() as directory, Progress(console=console) as progress:
        async with Cluster(Path(directory)) as cluster, Client() as client:
            broker = cluster.brokers[0].address
            seconds = await send_all(client, broker, progress)
            route = await client.call(cluster.namesrv_addr, GetRouteInfoByTopic(topic=TOPIC))
            started = time.perf_counter()
            found = await pull_all(client, broker, "*")
            pulling_seconds = time.perf_counter() - started
            query = QueryMessage(
                topic=TOPIC, key="order-4711", max_num=32, begin_timestamp=0, end_timestamp=2**62, is_unique_key=False
            )
            by_key = decode_all((await client.call(broker, query)).body)
            queues = TopicRouteData.decode(route.body).queue_datas[0].read_queue_nums
    table = Table("what", "count", "seconds")
    table.add_row("orders sent, each acknowledged", str(ORDERS), f"{seconds:.2f}")
    table.add_row("pulled back", str(found.total()), f"{pulling_seconds:.2f}")
    for tag in TAGS:
        table.add_row(f"of these {tag}", str(found[tag]), "")
    table.add_row("queues in the route", str(queues), "")
    table.add_row("found by key order-4711", str(len(by_key)), "")
    console.print(table)
    is_right = found.total() == ORDERS and queues == QUEUES and [m.body for m in by_key] == [b'{"order": 4711}']
    console.print("every count agrees" if is_right else "[red]the counts do not agree[/red]")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
