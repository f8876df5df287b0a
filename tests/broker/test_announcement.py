"""What a registration says."""

from pathlib import Path

import pytest

from kerolox.broker.announcement import Announcement
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.topics import TopicTable
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
def announcement(config: BrokerConfig, topics: TopicTable) -> Announcement:
    return Announcement(config, topics, IDENTITY)


def said(body: bytes) -> dict[str, TopicConfig]:
    return RegisterBrokerBody.decode(body).topic_config_serialize_wrapper.topic_config_table


def test_everything_is_one_body_with_all_topics_and_its_checksum(
    announcement: Announcement, topics: TopicTable
) -> None:
    (body,) = announcement.everything()

    assert said(body) == topics.topics
    header = announcement.registration(body, heartbeats=True)
    assert (header.body_crc32, header.heartbeat_timeout_millis) == (crc32(body), 10_000)
    assert (header.broker_addr, header.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")
    assert announcement.registration(body, heartbeats=False).heartbeat_timeout_millis is None


def test_many_topics_are_split_and_the_last_piece_has_the_true_version(
    announcement: Announcement, topics: TopicTable, config: BrokerConfig
) -> None:
    """A NameServer reads only what has another version than what it read last."""
    config.enable_split_registration, config.split_registration_size = True, 4

    bodies = [RegisterBrokerBody.decode(body).topic_config_serialize_wrapper for body in announcement.everything()]

    pieces = [body.topic_config_table for body in bodies]
    versions = [body.data_version for body in bodies]
    assert [len(piece) for piece in pieces[:-1]] == [4] * (len(pieces) - 1)
    assert {name: topic for piece in pieces for name, topic in piece.items()} == topics.topics
    assert versions[-1] == topics.data_version
    assert len({(version.counter, version.timestamp) for version in versions}) == len(pieces)


def test_some_topics_are_told_without_the_others_nor_those_that_are_gone(announcement: Announcement) -> None:
    assert sorted(said(announcement.some(["t1", "t3", "gone"]))) == ["t1", "t3"]


@pytest.mark.parametrize(("permission", "shown", "template"), [(6, 6, 7), (4, 4, 4), (2, 2, 2), (0, 0, 0)])
def test_no_topic_is_shown_with_more_than_the_broker_permits(
    announcement: Announcement, config: BrokerConfig, permission: int, shown: int, template: int
) -> None:
    config.broker_permission = permission

    (body,) = announcement.everything()

    assert (said(body)["t1"].perm, said(body)["TBW102"].perm) == (shown, template)


def test_compressed_it_says_the_same_without_attributes(
    announcement: Announcement, config: BrokerConfig, topics: TopicTable
) -> None:
    """NameServers of 4.x read topics of five words only."""
    config.compressed_register = True

    (body,) = announcement.everything()

    table = decompress(body, CURRENT_VERSION).topic_config_serialize_wrapper
    assert table.data_version == topics.data_version
    assert table.topic_config_table.keys() == topics.topics.keys()
    assert table.topic_config_table["t1"].attributes is None


def test_filter_servers_are_told_too(announcement: Announcement) -> None:
    announcement.filter_servers = lambda: ["10.0.0.1:1"]

    assert RegisterBrokerBody.decode(announcement.some([])).filter_server_list == ["10.0.0.1:1"]
