"""Bodies and headers of registrations."""

from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.registration.requests import RegistrationRequests
from kerolox.broker.tables.topics import TopicTable
from kerolox.codes import CURRENT_VERSION
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.wire.bodies.registration import RegisterBrokerBody, crc32, decompress
from kerolox.wire.bodies.topics import TopicConfig
from tests.broker.name_servers import IDENTITY


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig(broker_name="broker-a")


@pytest.fixture
def topics(config: BrokerConfig, tmp_path: Path) -> TopicTable:
    table = TopicTable(config, RealDisk(), tmp_path, ManualClock())
    table.load()
    for number in range(5):
        table.put(TopicConfig(topic_name=f"t{number}", attributes={"message.type": "FIFO"}))
    return table


@pytest.fixture
def requests(config: BrokerConfig, topics: TopicTable) -> RegistrationRequests:
    return RegistrationRequests(config, topics, IDENTITY)


def registered_topics(body: bytes) -> dict[str, TopicConfig]:
    return RegisterBrokerBody.decode(body).topic_config_serialize_wrapper.topic_config_table


def test_everything_is_one_body_with_all_topics(requests: RegistrationRequests, topics: TopicTable) -> None:
    (body,) = requests.everything()

    assert registered_topics(body) == topics.topics
    header = requests.registration(body, heartbeats=True)
    assert (header.body_crc32, header.heartbeat_timeout_millis) == (crc32(body), 10_000)
    assert (header.broker_addr, header.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")
    assert requests.registration(body, heartbeats=False).heartbeat_timeout_millis is None


def test_many_topics_are_split_and_the_last_piece_has_the_actual_version(
    requests: RegistrationRequests, topics: TopicTable, config: BrokerConfig
) -> None:
    """A NameServer ignores a body with the version of the one before."""
    config.enable_split_registration, config.split_registration_size = True, 4

    bodies = [RegisterBrokerBody.decode(body).topic_config_serialize_wrapper for body in requests.everything()]

    pieces = [body.topic_config_table for body in bodies]
    versions = [body.data_version for body in bodies]
    assert [len(piece) for piece in pieces[:-1]] == [4] * (len(pieces) - 1)
    assert {name: topic for piece in pieces for name, topic in piece.items()} == topics.topics
    assert versions[-1] == topics.data_version
    assert len({(version.counter, version.timestamp) for version in versions}) == len(pieces)


def test_some_has_only_the_named_topics_that_exist(requests: RegistrationRequests) -> None:
    assert sorted(registered_topics(requests.some(["t1", "t3", "gone"]))) == ["t1", "t3"]


@pytest.mark.parametrize(("permission", "registered", "template"), [(6, 6, 7), (4, 4, 4), (2, 2, 2), (0, 0, 0)])
def test_permissions_of_topics_are_limited_to_those_of_the_broker(
    requests: RegistrationRequests, config: BrokerConfig, permission: int, registered: int, template: int
) -> None:
    config.broker_permission = permission

    (body,) = requests.everything()

    assert (registered_topics(body)["t1"].perm, registered_topics(body)["TBW102"].perm) == (registered, template)


def test_a_compressed_registration_has_no_attributes(
    requests: RegistrationRequests, config: BrokerConfig, topics: TopicTable
) -> None:
    """NameServers of 4.x expect exactly five fields per topic."""
    config.compressed_register = True

    (body,) = requests.everything()

    table = decompress(body, CURRENT_VERSION).topic_config_serialize_wrapper
    assert table.data_version == topics.data_version
    assert table.topic_config_table.keys() == topics.topics.keys()
    assert table.topic_config_table["t1"].attributes is None


def test_filter_servers_are_registered(config: BrokerConfig, topics: TopicTable) -> None:
    requests = RegistrationRequests(config, topics, IDENTITY, lambda: ["10.0.0.1:1"])

    assert RegisterBrokerBody.decode(requests.some([])).filter_server_list == ["10.0.0.1:1"]
