"""Simple consumers for tests."""

from typing import Unpack

from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.group.subscriptions import Expression
from kerolox.client.consumer.simple import SimpleConsumer
from kerolox.client.messages import Received
from kerolox.client.options import Shared
from kerolox.testing import Cluster


def consumer(
    cluster: Cluster,
    topics: str | dict[str, Expression] = "orders",
    *,
    is_ordered: bool = False,
    **keywords: Unpack[Shared],
) -> SimpleConsumer:
    merged: Shared = {"namesrv_addr": cluster.namesrv_addr, "client_ip": "127.0.0.1", **keywords}
    first = ConsumeFrom.FIRST_OFFSET
    return SimpleConsumer("group", topics=topics, consume_from=first, is_ordered=is_ordered, **merged)


async def receive_some(simple: SimpleConsumer, invisible_seconds: float = 60) -> list[Received]:
    """Receive, several times if necessary: brokers redeliver messages some time after their invisible time ends."""
    for _ in range(10):
        if messages := await simple.receive(invisible_seconds=invisible_seconds, wait_seconds=5):
            return messages
    raise AssertionError("no message was received")
