"""Limits of the route table at their exact values, and what a registration leaves unchanged."""

from collections.abc import Mapping
from typing import Any

import pytest

from kerolox.errors import SystemFailure
from kerolox.namesrv import NamesrvConfig
from kerolox.namesrv.route_table import (
    FILTER_SERVERS_MAX,
    NAME_LENGTH_MAX,
    TOPIC_LENGTH_MAX,
    Notice,
    RouteTable,
)
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.registration import RegisterBrokerBody
from kerolox.wire.bodies.routes import QueueData
from kerolox.wire.bodies.topics import TopicConfig, TopicConfigTable, TopicQueueMappingInfo
from kerolox.wire.headers.namesrv import RegisterBroker
from tests.namesrv.conftest import topic, version

CHANNEL, OTHER_CHANNEL = object(), object()


class Table:
    """A route table without a server, and the notices that it sends."""

    def __init__(self, **settings: Any) -> None:
        self.config = NamesrvConfig()
        for name, value in settings.items():
            setattr(self.config, name, value)
        self.notices: list[Notice] = []
        self.table = RouteTable(self.config, ManualClock(), notify=self.notices.append)

    def register(
        self,
        *topics: TopicConfig,
        name: str = "broker-a",
        broker_id: int = 0,
        address: str = "10.0.0.5:10911",
        counter: int = 1,
        state: int = 0,
        channel: object = CHANNEL,
        filter_servers: list[str] | None = None,
        mappings: Mapping[str, TopicQueueMappingInfo] | None = None,
    ) -> None:
        header = RegisterBroker(
            broker_name=name,
            broker_addr=address,
            cluster_name="C",
            ha_server_addr="10.0.0.5:10912",
            broker_id=broker_id,
            enable_acting_master=self.config.notify_min_broker_id_changed,
        )
        configs = {config.topic_name: config for config in topics or (topic("T"), topic("U"))}
        table = TopicConfigTable(version(counter, state), configs, None, dict(mappings or {}))
        self.table.register(header, RegisterBrokerBody(filter_servers, table), channel)


def test_names_of_exactly_the_maximum_length_are_accepted() -> None:
    made = Table()

    made.register(topic("t" * TOPIC_LENGTH_MAX), topic("U"), name="b" * NAME_LENGTH_MAX)

    assert "t" * TOPIC_LENGTH_MAX in made.table.topics
    assert "b" * NAME_LENGTH_MAX in made.table.groups


@pytest.mark.parametrize("length", [0, TOPIC_LENGTH_MAX + 1])
def test_topic_names_beyond_the_limits_are_refused(length: int) -> None:
    made = Table()

    with pytest.raises(SystemFailure, match="topic name"):
        made.register(topic("t" * length), topic("U"))
    made.register()
    with pytest.raises(SystemFailure, match="topic name"):
        made.table.add_topic("t" * length, [QueueData("broker-a", 1, 1, 6)])

    assert set(made.table.topics) == {"T", "U"}


def test_as_many_filter_servers_as_allowed_are_accepted() -> None:
    made = Table()

    made.register(filter_servers=["f:1"] * FILTER_SERVERS_MAX)

    assert [live.filter_servers for live in made.table.live.values()] == [["f:1"] * FILTER_SERVERS_MAX]


def test_as_many_topics_as_allowed_are_accepted_and_one_more_is_refused() -> None:
    made = Table(topic_nums_max=3)

    made.register()
    made.table.add_topic("V", [QueueData("broker-a", 1, 1, 6)])
    made.table.add_topic("V", [QueueData("broker-a", 2, 2, 6)])
    with pytest.raises(SystemFailure, match="topicNumsMax"):
        made.table.add_topic("W", [QueueData("broker-a", 1, 1, 6)])

    assert set(made.table.topics) == {"T", "U", "V"}
    assert made.table.topics["V"].queues["broker-a"].read_queue_nums == 2


@pytest.mark.parametrize(("state", "address"), [(4, "10.0.0.5:10911"), (5, "10.0.0.6:10911"), (6, "10.0.0.6:10911")])
def test_an_address_takes_over_an_id_unless_its_state_is_older(state: int, address: str) -> None:
    made = Table()
    made.register(state=5)

    made.register(state=state, address="10.0.0.6:10911", channel=OTHER_CHANNEL)

    assert made.table.groups["broker-a"].addresses == {0: address}


def test_a_changed_registration_on_a_new_connection_outlives_the_old_connection() -> None:
    made = Table()
    made.register(counter=1)

    made.register(counter=2, channel=OTHER_CHANNEL)
    made.table.channel_closed(CHANNEL)

    assert made.table.groups["broker-a"].addresses == {0: "10.0.0.5:10911"}
    assert len(made.table.live) == 1


def test_members_are_notified_of_a_smaller_id_but_not_of_the_same_again() -> None:
    made = Table(notify_min_broker_id_changed=True)
    slave, master = "10.0.0.6:10911", "10.0.0.5:10911"
    made.register(broker_id=1, address=slave)
    made.notices.clear()

    made.register(broker_id=1, address=slave, counter=2)
    assert made.notices == []

    made.register(broker_id=0, address=master, channel=OTHER_CHANNEL)
    (notice,) = made.notices
    # The new broker knows its own id.
    assert [address for address in notice.addresses if address == master] == []
    assert list(notice.addresses) == [slave]


def test_a_lone_slave_that_becomes_master_is_notified() -> None:
    made = Table(notify_min_broker_id_changed=True)
    made.register(broker_id=1)
    made.notices.clear()

    made.register(broker_id=0)

    (notice,) = made.notices
    assert list(notice.addresses) == ["10.0.0.5:10911"]


def test_the_only_member_left_is_notified_of_its_own_id() -> None:
    made = Table(notify_min_broker_id_changed=True)
    slave, master = "10.0.0.6:10911", "10.0.0.5:10911"
    made.register(broker_id=0, address=master)
    made.register(broker_id=1, address=slave, channel=OTHER_CHANNEL)
    made.notices.clear()

    made.table.channel_closed(CHANNEL)

    (notice,) = made.notices
    assert list(notice.addresses) == [slave]
    assert notice.change.offline_broker_addr == master


def test_all_remaining_members_are_notified_of_a_loss() -> None:
    made = Table(notify_min_broker_id_changed=True)
    for broker_id in range(3):
        made.register(broker_id=broker_id, address=f"10.0.0.{broker_id}:10911", channel=broker_id)
    made.notices.clear()

    made.table.channel_closed(0)

    (notice,) = made.notices
    assert sorted(notice.addresses) == ["10.0.0.1:10911", "10.0.0.2:10911"]


@pytest.mark.parametrize("changed", [topic("T", queues=5), topic("T", perm=4), topic("T", flag=2)])
def test_only_topics_that_differ_are_encoded_again(changed: TopicConfig) -> None:
    made = Table()
    made.register(topic("T"), topic("U"), counter=1)
    for known in made.table.topics.values():
        known.encoded_routes[True] = b"encoded"

    made.register(changed, topic("U"), counter=2)

    assert made.table.topics["U"].encoded_routes == {True: b"encoded"}
    assert made.table.topics["T"].encoded_routes == {}
    queues = made.table.topics["T"].queues["broker-a"]
    assert (queues.read_queue_nums, queues.perm, queues.topic_sys_flag) == (
        changed.read_queue_nums,
        changed.perm,
        changed.topic_sys_flag,
    )


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_broker_that_leaves_a_topic_takes_only_its_own_mapping(is_deleted: bool) -> None:
    made = Table()
    mappings = {
        name: TopicQueueMappingInfo("T", "__global__", 4, name, 7, False, {0: 0}) for name in ("broker-a", "broker-b")
    }
    made.register(name="broker-a", mappings={"T": mappings["broker-a"]})
    made.register(
        name="broker-b", address="10.0.0.6:10911", channel=OTHER_CHANNEL, mappings={"T": mappings["broker-b"]}
    )

    if is_deleted:
        made.table._remove_queues(made.table.topics["T"], made.table.groups["broker-a"])
    else:
        made.table.channel_closed(CHANNEL)

    assert made.table.topics["T"].mappings == {"broker-b": mappings["broker-b"]}
