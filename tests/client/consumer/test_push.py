"""The push consumer, against brokers of our own."""

from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.push import PushConsumer
from kerolox.testing import Cluster
from tests.client.consumer.consumers import Noted, numbered, sender
from tests.client.sessions import options, until


async def test_what_was_sent_is_consumed_and_committed_at_the_end(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(50))
        noted = Noted()

        async with PushConsumer(
            "group", noted, topics="orders", consume_from=ConsumeFrom.FIRST_OFFSET, options=options(cluster)
        ):
            await until(lambda: len(noted.messages) == 50)

        assert sorted(noted.bodies) == sorted(numbered(50))
        assert await brokers.committed("group", "orders") == 50
