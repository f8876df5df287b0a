"""Connected clients and their running info."""

import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message, Producer
from kerolox.errors import ConsumerNotOnline, SystemFailure
from kerolox.testing import Cluster
from tests.admin.clients import GROUP, QUEUE, TOPIC, AssigningConsumer, consuming, prepare
from tests.client.sessions import options


async def test_consumers_on_several_brokers_are_listed_once(admin_of_two: AdminClient, two_brokers: Cluster) -> None:
    await prepare(admin_of_two, two_brokers)

    async with consuming(two_brokers) as (session, _):
        found = await admin_of_two.connections.consumers(GROUP)

    assert [client.client_id for client in found.connection_set] == [session.client_id]
    assert found.connection_set[0].language == "PYTHON"
    assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert TOPIC in found.subscription_table


async def test_a_group_without_consumers_is_not_online(admin: AdminClient) -> None:
    with pytest.raises(ConsumerNotOnline, match="no consumer of group 'shop' is connected to broker-a"):
        await admin.connections.consumers(GROUP)
    with pytest.raises(ConsumerNotOnline):
        await admin.connections.running_infos(GROUP)


async def test_producers_of_a_group_are_listed(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)
    async with Producer("makers", options=options(cluster)) as producer:
        await producer.send(Message(TOPIC, b"1"))
        await producer._session.heartbeat()

        (found,) = await admin.connections.producers("makers", TOPIC)
        everybody = await admin.connections.all_producers("broker-a")

    assert found.client_id == producer.options.client_id
    assert [producer.client_id for producer in everybody["makers"]] == [found.client_id]
    assert await admin.connections.producers("nobody", TOPIC) == []


async def test_running_info_of_a_consumer_is_returned(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)
    owner = AssigningConsumer(TOPIC)
    owner.offsets = {QUEUE: 7}

    async with consuming(cluster, consumer=owner) as (session, _):
        info = await admin.connections.running_info(GROUP, session.client_id)
        with_stacks = await admin.connections.running_info(GROUP, session.client_id, has_stacks=True)
        everybody = await admin.connections.running_infos(GROUP)
        offsets = await admin.connections.offsets(GROUP, TOPIC)
        with pytest.raises(SystemFailure, match="not online"):
            await admin.connections.running_info(GROUP, "somebody else")

    assert info.mq_table[QUEUE].commit_offset == 7
    assert (info.jstack, with_stacks.jstack) == (None, "where it stands")
    assert list(everybody) == [session.client_id]
    assert offsets == {session.client_id: {QUEUE: 7}}


async def test_consumers_can_be_listed_for_one_broker(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)
    async with consuming(cluster) as (session, _):
        of_broker = await admin.connections.consumers(GROUP, broker=cluster.brokers[0].address)

    assert [client.client_id for client in of_broker.connection_set] == [session.client_id]
