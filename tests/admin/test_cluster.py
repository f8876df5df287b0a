"""Brokers, their write permissions, and cleanup."""

import pytest

from kerolox.admin import AdminClient, BrokerStatus
from kerolox.errors import RemotingError
from kerolox.testing import Cluster
from tests.admin.clients import TOPIC, prepare


def test_rates_and_counts_are_parsed_from_the_runtime_info() -> None:
    info = {
        "brokerVersionDesc": "V5_5_0",
        "putTps": "12.5 11 10",
        "getTransferedTps": "3.0 2 1",
        "msgPutTotalTodayNow": "30",
        "msgPutTotalTodayMorning": "10",
    }
    status = BrokerStatus("c", "broker-a", 0, "127.0.0.1:1", info)

    assert (status.version, status.is_master) == ("V5_5_0", True)
    assert (status.in_tps, status.out_tps, status.in_today, status.out_today) == (12.5, 3.0, 20, 0)


async def test_all_brokers_are_listed_with_their_runtime_info(admin_of_two: AdminClient, two_brokers: Cluster) -> None:
    brokers = await admin_of_two.cluster.brokers()

    assert [(it.cluster, it.name, it.broker_id, it.address) for it in brokers] == [
        ("DefaultCluster", name, 0, broker.address)
        for name, broker in zip(("broker-a", "broker-b"), two_brokers.brokers, strict=True)
    ]
    assert all(it.version and it.error is None for it in brokers)
    assert sorted((await admin_of_two.cluster.info()).broker_addr_table) == ["broker-a", "broker-b"]


async def test_a_silent_broker_is_listed_with_its_error(
    admin: AdminClient, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = await admin.cluster.info()
    info.broker_addr_table["broker-a"].broker_addrs[1] = "127.0.0.1:1"

    async def with_a_dead_slave() -> object:
        return info

    monkeypatch.setattr(admin._servers, "cluster_info", with_a_dead_slave)

    living, dead = await admin.cluster.brokers()

    assert living.error is None
    assert (dead.is_master, dead.info) == (False, {})
    assert isinstance(dead.error, RemotingError)


async def test_the_runtime_info_counts_messages(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)

    assert (await admin.cluster.runtime_info("broker-a"))["msgPutTotalTodayNow"] == "3"
    (broker,) = await admin.cluster.brokers()
    assert broker.in_today == 3
    assert (await admin.cluster.ha_status("broker-a")).master


async def test_wiping_the_write_permission_removes_it_from_routes(admin: AdminClient) -> None:
    await admin.topics.create(TOPIC)

    assert await admin.cluster.wipe_write_permission("broker-a") > 0
    assert (await admin.topics.route(TOPIC)).write_queues == ()
    assert await admin.cluster.add_write_permission("broker-a") > 0
    assert len((await admin.topics.route(TOPIC)).write_queues) == 8


async def test_cleanup_runs_on_a_cluster_or_on_one_broker(admin_of_two: AdminClient) -> None:
    both = ["broker-a", "broker-b"]

    assert await admin_of_two.cluster.clean_expired_queues() == both
    assert await admin_of_two.cluster.clean_unused_topics(cluster="DefaultCluster") == both
    assert await admin_of_two.cluster.delete_expired_commit_log(broker="broker-b") == ["broker-b"]


async def test_the_write_permission_can_be_wiped_on_one_name_server(admin: AdminClient, cluster: Cluster) -> None:
    await admin.topics.create("orders")
    wiped = await admin.cluster.wipe_write_permission("broker-a", name_server=cluster.namesrv_addr)

    assert (await admin.topics.route("orders")).write_queues == ()
    assert await admin.cluster.add_write_permission("broker-a", name_server=cluster.namesrv_addr) == wiped > 0
    assert (await admin.topics.route("orders")).write_queues != ()
