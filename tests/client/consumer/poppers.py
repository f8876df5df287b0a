"""Simple consumers for tests, and what they get."""

from typing import Unpack

from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.simple import SimpleConsumer
from kerolox.client.consumer.subscriptions import Expression
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


async def some(simple: SimpleConsumer, invisible_seconds: float = 60) -> list[Received]:
    """Messages come again when the broker gets to it, which is not the moment at which their time is over."""
    for _ in range(10):
        if messages := await simple.receive(invisible_seconds=invisible_seconds, wait_seconds=5):
            return messages
    raise AssertionError("nothing came")
