"""Lists of connected clients."""

import pytest

from kerolox.broker.errors import ConsumerNotOnline
from kerolox.errors import SystemFailure
from kerolox.wire.bodies.clients import ConsumerConnection, ProducerConnection, ProducerTable
from kerolox.wire.bodies.offsets import QuerySubscription
from kerolox.wire.bodies.topics import TopicList
from kerolox.wire.headers.broker import QuerySubscriptionByConsumer, QueryTopicsByConsumer
from kerolox.wire.headers.clients import GetAllProducerInfo, GetConsumerConnectionList, GetProducerConnectionList
from tests.broker.brokers import BrokerFixture


async def test_consumers_are_listed_with_their_subscriptions(broker: BrokerFixture) -> None:
    await broker.heartbeat("c1", consumes={"group": ["orders", "bills"]})

    found = ConsumerConnection.decode((await broker.call(GetConsumerConnectionList(consumer_group="group"))).body)

    (connection,) = found.connection_set
    assert (connection.client_id, connection.language) == ("c1", "JAVA")
    assert connection.client_addr.startswith("127.0.0.1:")
    assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert set(found.subscription_table) == {"orders", "bills"}
    with pytest.raises(ConsumerNotOnline, match=r"the consumer group\[nobody\] not online"):
        await broker.call(GetConsumerConnectionList(consumer_group="nobody"))


async def test_producers_are_listed_by_group_and_in_total(broker: BrokerFixture) -> None:
    assert (await broker.call(GetAllProducerInfo())).body == b'{"data":{}}'
    await broker.heartbeat("c1", produces=("a", "b"))

    of_group = ProducerConnection.decode((await broker.call(GetProducerConnectionList(producer_group="a"))).body)
    everyone = ProducerTable.decode((await broker.call(GetAllProducerInfo())).body).data

    assert [connection.client_id for connection in of_group.connection_set] == ["c1"]
    assert {group: [info.client_id for info in infos] for group, infos in everyone.items()} == {
        "a": ["c1"],
        "b": ["c1"],
    }
    assert everyone["a"][0].remote_ip.startswith("/127.0.0.1:")
    with pytest.raises(SystemFailure, match=r"the producer group\[nobody\] not exist"):
        await broker.call(GetProducerConnectionList(producer_group="nobody"))


async def test_topics_and_subscriptions_of_a_group_are_listed(broker: BrokerFixture) -> None:
    await broker.heartbeat("c1", consumes={"group": ["orders"]})
    broker.broker.offsets.commit("group", "bills", 0, 1)
    broker.broker.offsets.commit("subgroup", "more", 0, 1)

    topics = TopicList.decode((await broker.call(QueryTopicsByConsumer(group="group"))).body)
    assert (topics.topic_list, topics.broker_addr) == (["bills"], broker.broker.address)
    found = {
        topic: QuerySubscription.decode(
            (await broker.call(QuerySubscriptionByConsumer(group="group", topic=topic))).body
        ).subscription_data
        for topic in ("orders", "bills")
    }
    assert found["orders"] is not None
    assert found["orders"].sub_string == "*"
    assert found["bills"] is None
