"""Registrations that differ little from the last one lead to the same route table as decoding each as a whole."""

import json
import random
from typing import Any

import msgspec
import pytest

from kerolox.codes import CURRENT_VERSION
from kerolox.namesrv import NamesrvConfig
from kerolox.namesrv.entries import BrokerAddress
from kerolox.namesrv.route_table import RouteTable
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.registration import RegisterBrokerBody, compress, crc32, decompress
from kerolox.wire.bodies.routes import QueueData
from kerolox.wire.bodies.topic_pieces import DecodedRegistration
from kerolox.wire.bodies.topics import TopicConfig, TopicConfigTable, TopicQueueMappingInfo
from kerolox.wire.headers.namesrv import RegisterBroker
from tests.namesrv.conftest import NamesrvFixture, topic, version

COMPACT: dict[str, Any] = {"separators": (",", ":")}
SPACED: dict[str, Any] = {"separators": (", ", ": ")}
INDENTED: dict[str, Any] = {"indent": 1}


class RandomBroker:
    """The topics of a broker, and its registrations as a text that Java, or anything else, may have written."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self._rng = rng
        self._next = count
        # A list, because a document may contain a key twice.
        self._entries = [(f"topic-{number}", self._config(f"topic-{number}")) for number in range(count)]
        self._counter = 1
        self._mapped: list[str] = []
        self._servers: list[str] | None = None

    def header(self, body: bytes, *, compressed: bool = False, broker_id: int = 0) -> RegisterBroker:
        return RegisterBroker(
            broker_name="broker-a",
            broker_addr=f"10.0.0.{broker_id % 9}:10911",
            cluster_name="C",
            ha_server_addr="10.0.0.5:10912",
            broker_id=broker_id,
            enable_acting_master=False,
            compressed=compressed,
            body_crc32=crc32(body) if self._rng.random() < 0.8 else 0,
        )

    def change(self) -> None:
        """Change a few topics, or something else."""
        for _ in range(self._rng.choice([0, 1, 1, 1, 2, 5])):
            self._rng.choice(self._CHANGES)(self)
        if self._rng.random() < 0.9:
            self.change_version()

    def change_version(self) -> None:
        self._counter += 1

    def _change_topic(self) -> None:
        index = self._rng.randrange(len(self._entries))
        name = self._entries[index][0]
        self._entries[index] = (name, self._config(name))

    def _add_topic(self) -> None:
        # Some of the names have been used before.
        name = f"topic-{self._next if self._rng.random() < 0.8 else self._rng.randrange(self._next)}"
        self._next += 1
        place = self._rng.choice([0, len(self._entries), self._rng.randrange(len(self._entries))])
        self._entries.insert(place, (name, self._config(name)))

    def _remove_topics(self) -> None:
        start = self._rng.randrange(len(self._entries))
        if len(self._entries) > 20:
            del self._entries[start : start + self._rng.choice([1, 1, 1, 3, 15])]

    def _move_topics(self) -> None:
        start, end = sorted(self._rng.choices(range(len(self._entries)), k=2))
        moved = self._entries[start:end]
        del self._entries[start:end]
        place = self._rng.randrange(len(self._entries) or 1)
        self._entries[place:place] = moved

    def _duplicate_topic(self) -> None:
        name = self._rng.choice(self._entries)[0]
        self._entries.insert(self._rng.randrange(len(self._entries)), (name, self._config(name)))

    def _duplicate_name(self) -> None:
        """Add an entry whose key is not the name of its topic."""
        key = f"key-{self._next}"
        self._entries.insert(self._rng.randrange(len(self._entries)), (key, self._config(self._entries[0][0])))

    def _remove_duplicates(self) -> None:
        self._entries = [(name, config) for name, config in dict(self._entries).items() if name == config["topicName"]]

    def _map_topics(self) -> None:
        self._mapped = [self._rng.choice(self._entries)[0] for _ in range(self._rng.randrange(4))]

    def _change_servers(self) -> None:
        self._servers = self._rng.choice([None, [], ["10.0.0.5:30001"], ["},", '"topicConfigTable":{']])

    _CHANGES = (
        *([_change_topic, _add_topic, _remove_topics] * 6),
        *([_remove_duplicates] * 4),
        *(_move_topics, _duplicate_topic, _duplicate_name, _map_topics, _change_servers),
    )

    def _config(self, name: str) -> dict[str, Any]:
        config: dict[str, Any] = {
            "attributes": self._rng.choice([{}, {}, {"message.type": "FIFO"}, {"a},": '"x":{'}]),
            "order": False,
            "perm": self._rng.choice([6, 4, 7]),
            "readQueueNums": self._rng.randrange(1, 9),
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": self._rng.choice([0, 0, 1]),
            "writeQueueNums": self._rng.randrange(1, 9),
        }
        if self._rng.random() < 0.05:
            config["unknown"] = {"topicConfigTable": {"x": [{}]}}
        return config

    def body(self) -> bytes:
        style = self._rng.choices([COMPACT, SPACED, INDENTED], [30, 1, 1])[0]
        table = _members([(self._written(name), json.dumps(config, **style)) for name, config in self._entries], style)
        mappings = {
            name: {"topic": name, "bname": "broker-a", "totalQueues": 4, "currIdMap": {0: 0, 1: self._counter}}
            for name in self._mapped
        }
        is_quoted = style is not COMPACT or self._rng.random() < 0.5
        members = [
            ('"dataVersion"', json.dumps({"counter": self._counter, "timestamp": 1_700_000_000_000}, **style)),
            ('"topicConfigTable"', table),
            ('"topicQueueMappingDetailMap"', "{}"),
            ('"topicQueueMappingInfoMap"', fastjson.encode(mappings, strict=is_quoted).decode()),
        ]
        decoys = [(f'"{name}"', json.dumps(self._config(name))) for name in ("decoy-1", "decoy-2")]
        decoy = ('"topicConfigTable"', _members(decoys, style))
        match self._rng.randrange(40):
            case 0:
                members.insert(0, decoy)
            case 1:
                members.insert(0, ('"unknown"', _members([('"topicConfigTable"', table)], style)))
            case 2:
                members.append(decoy)
            case 3:
                members.reverse()
        servers = ('"filterServerList"', json.dumps(self._servers))
        return _members([servers, ('"topicConfigSerializeWrapper"', _members(members, style))], style).encode()

    def _written(self, name: str) -> str:
        text = json.dumps(name)
        return text.replace("t", "\\u0074") if self._rng.random() < 0.001 else text


def _members(members: list[tuple[str, str]], style: dict[str, Any]) -> str:
    comma, colon = style.get("separators", (",\n", ": "))
    return "{" + str(comma).join(key + colon + value for key, value in members) + "}"


class Decodings:
    """Counts the registrations that are decoded only where they differ, and the topics decoded then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.partial = self.topics = 0
        decode_changes = RouteTable.decode_changes

        def counted(table: RouteTable, header: RegisterBroker, body: bytes) -> DecodedRegistration | None:
            decoded = decode_changes(table, header, body)
            if decoded is not None:
                self.partial += 1
                self.topics += len(decoded.body.topic_config_serialize_wrapper.topic_config_table)
            return decoded

        monkeypatch.setattr(RouteTable, "decode_changes", counted)


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> Decodings:
    return Decodings(monkeypatch)


def contents(table: RouteTable) -> Any:
    """Return everything that clients see, including the order of the topics."""
    return (
        [(topic.name, list(topic.queues.items()), topic.mappings) for topic in table.topics.values()],
        [(group.name, group.addresses, list(group.topics)) for group in table.groups.values()],
        {broker: (live.data_version, live.filter_servers) for broker, live in table.live.items()},
    )


def disturb(rng: random.Random, *tables: RouteTable) -> None:
    """Change the tables between two registrations of a broker."""
    kind, name, is_writable = rng.randrange(50), f"topic-{rng.randrange(100)}", rng.random() < 0.5
    for table in tables:
        match kind:
            case 0:
                table.set_write_perm("broker-a", is_writable=is_writable)
            case 1:
                table.delete_topic(name)
            case 2:
                table.add_topic(name, [QueueData("broker-a", 1, 1, 6)])
            case 3:
                table.unregister(BrokerAddress("C", "10.0.0.0:10911"), "broker-a")


@pytest.mark.parametrize(("seed", "count"), [(1, 100), (2, 150), (3, 150), (4, 500)])
async def test_random_registrations_lead_to_the_same_table_as_decoding_each_as_a_whole(
    namesrv: NamesrvFixture, decodings: Decodings, seed: int, count: int
) -> None:
    rng = random.Random(seed)
    broker = RandomBroker(rng, count)
    table, expected = namesrv.server.table, RouteTable(NamesrvConfig(), ManualClock())
    for _ in range(250):
        broker.change()
        body = broker.body()
        decoded = RegisterBrokerBody.decode(body)
        is_compressed = rng.random() < 0.05
        if is_compressed:
            body = compress(decoded, CURRENT_VERSION)
            decoded = decompress(body, CURRENT_VERSION)
        header = broker.header(body, compressed=is_compressed, broker_id=rng.choice([0] * 30 + [1, -1]))

        await namesrv.call(header, body)
        expected.register(header, decoded, "connection")
        assert contents(table) == contents(expected)
        disturb(rng, table, expected)

    broker.change_version()
    body = broker.body()
    await namesrv.call(broker.header(body), body)
    fresh = RouteTable(NamesrvConfig(), ManualClock())
    fresh.register(broker.header(body), RegisterBrokerBody.decode(body), "connection")
    assert {name: topic.queues for name, topic in fresh.topics.items()} == {
        name: table.topics[name].queues for name in fresh.topics
    }
    assert decodings.partial > 20


def registration(broker_id: int, counter: int, configs: list[TopicConfig]) -> tuple[RegisterBroker, bytes]:
    table = TopicConfigTable(version(counter), {config.topic_name: config for config in configs})
    body = RegisterBrokerBody([], table).encode()
    header = RegisterBroker(
        broker_name="broker-a",
        broker_addr=f"10.0.0.5:{10911 + broker_id}",
        cluster_name="C",
        ha_server_addr="10.0.0.5:10912",
        broker_id=broker_id,
        enable_acting_master=False,
        body_crc32=crc32(body),
    )
    return header, body


async def test_only_the_topics_near_a_change_are_decoded(namesrv: NamesrvFixture, decodings: Decodings) -> None:
    configs = [topic(f"topic-{number}") for number in range(1000)]
    await namesrv.call(*registration(0, 1, configs))

    configs[300] = topic("topic-300", 8)
    await namesrv.call(*registration(0, 2, configs))
    configs.append(topic("new"))
    await namesrv.call(*registration(0, 3, configs))

    assert (await namesrv.queues("topic-300"), await namesrv.queues("new")) == ((8, 8, 6), (4, 4, 6))
    assert decodings.partial == 2
    assert decodings.topics < 100


async def test_changes_of_two_brokers_of_a_group_that_both_set_its_topics_are_applied(
    namesrv: NamesrvFixture, decodings: Decodings
) -> None:
    """The broker with the smallest id sets them like the master, and an id may be negative."""
    configs = [topic(f"topic-{number}") for number in range(100)]
    for broker_id in (-1, 0):
        await namesrv.call(*registration(broker_id, 1, configs))
    await namesrv.call(*registration(-1, 2, [topic("topic-50", 9), *configs[1:50], *configs[51:]]))

    await namesrv.call(*registration(0, 3, configs))

    assert await namesrv.queues("topic-50") == (4, 4, 6)
    assert decodings.partial == 0


async def test_a_registration_of_static_topics_is_decoded_whatever_its_size(namesrv: NamesrvFixture) -> None:
    """Unquoted keys are not standard JSON."""
    mapping = TopicQueueMappingInfo("topic-0", "__global__", 4, "broker-a", 7, False, {0: 0, 1: 1})
    for count in (20, 120, 1000):
        configs = {f"key-{number}": topic(f"topic-{number}") for number in range(count)}
        body = RegisterBrokerBody(None, TopicConfigTable(version(count), configs, None, {"topic-0": mapping})).encode()
        header, _ = registration(0, count, [])

        await namesrv.call(msgspec.structs.replace(header, body_crc32=crc32(body)), body)

        assert (await namesrv.route("topic-0")).topic_queue_mapping_by_broker == {"broker-a": mapping}
        assert await namesrv.queues(f"topic-{count - 1}") == (4, 4, 6)
