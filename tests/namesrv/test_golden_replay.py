"""Replays the requests recorded against Java's NameServer 5.5.0, in the same order, and compares the responses.

Each serialization has its own server, and all its requests use one connection, as when they were recorded
(tests/golden/README.md). Intentional differences are listed below with their reasons.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from kerolox.codes import ResponseCode
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.runtime.text import fastjson, properties
from kerolox.wire import command
from kerolox.wire.bodies.kv import KVConfig
from kerolox.wire.command import Command
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import ext_text
from tests.golden.recordings import HERE, Direction, load

VERSION = "5.5.0"

# Java decodes a header in which required fields are missing and goes on with null: it finds nothing for the topic
# "null", or deletes nothing and reports success. Our response names the missing field (SYSTEM_ERROR).
FIELDS_REQUIRED = {
    "put-without-fields": "namespace",
    "put-without-value": "value",
    "put-without-key": "key",
    "get-without-fields": "namespace",
    "get-without-key": "key",
    "delete-without-key": "key",
    "register-without-fields": "brokerId",
    "register-without-name": "brokerId",
    "register-with-malformed-id": "brokerId",
    "unregister-without-fields": "brokerId",
    "unregister-without-id": "brokerId",
    "route-without-fields": "topic",
    "route-without-topic": "topic",
    "wipe-without-fields": "brokerName",
    "delete-topic-without-fields": "topic",
    "kv-list-without-fields": "namespace",
    "topics-by-cluster-without-fields": "cluster",
    "data-version-without-fields": "brokerId",
    "add-write-without-fields": "brokerName",
    "member-group-without-fields": "clusterName",
    "heartbeat-without-fields": "clusterName",
}

# Java leaves its initial error remark in the response, although the request succeeded.
LEFTOVER_REMARK = {"member-group-unknown-broker", "member-group"}

# Java returns the address of any broker: the first in the order of a hash table.
ANY_BROKER = {"system-topics"}

# Java's remark is an exception with a line of its source; ours names what could not be decoded. Java's response has no
# fields because it is a new object; ours has the (unset) fields of any failed registration.
EXCEPTION_IN_REMARK = {"register-with-malformed-body"}

# Sizes of thread pools are read only at startup. We refuse to change them (NO_PERMISSION), while Java accepts the
# value and continues with the old threads.
CONFIG_REFUSED = {"config-update"}

CONFIG_SHOWN = {"config"}
# Paths and ports of the installation, and the value that was refused above.
CONFIG_OF_THE_INSTALLATION = {"configStorePath", "kvConfigPath", "listenPort", "rocketmqHome", "serverWorkerThreads"}
# Our own keys: limits that Java does not have, and TLS, which Java configures by system properties.
OWN_CONFIG = {
    "frameHeaderBytesMax",
    "topicQueueNumsMax",
    "brokerNumsMax",
    "topicNumsMax",
    "kvConfigBytesMax",
    "connectionRequestsMax",
    "partialFrameTimeSeconds",
    "serverConnectionsMax",
    "partialFrameBytesMax",
    "proxyProtocolTrustedAddresses",
    "logDir",
    "logFormat",
    "logLevel",
    "logFileSizeMax",
    "logFilesMax",
    "metricsExporterType",
    "metricsPromExporterPort",
    "metricsPromExporterHost",
    "metricsLabel",
    "metricsSeriesMax",
}

INTENTIONAL = FIELDS_REQUIRED.keys() | EXCEPTION_IN_REMARK | CONFIG_REFUSED | CONFIG_SHOWN


@dataclass(frozen=True, slots=True)
class Exchange:
    case: str
    ours: Command
    java: Command

    @property
    def name(self) -> str:
        return self.case.partition("/")[2]


Replay = tuple[NamesrvConfig, list[Exchange]]


def decode_frame(frame: bytes) -> Command:
    (found,) = FrameReader().feed(frame)
    return command.decode(found)


def recorded_exchanges(serialization: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield case, request frame and response frame; 5.5.0 answers every request in these recordings."""
    recordings = [each for each in load(VERSION) if each.case.startswith(f"{serialization}/")]
    requests, answers = recordings[::2], recordings[1::2]
    for request, answer in zip(requests, answers, strict=True):
        assert (request.direction, answer.direction) == (Direction.REQUEST, Direction.RESPONSE)
        assert request.case == answer.case
        yield request.case, request.frame, answer.frame


async def replay_exchanges(server: NameServer, serialization: str) -> AsyncIterator[Exchange]:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for case, request, answer in recorded_exchanges(serialization):
            writer.write(request)
            async with asyncio.timeout(5):
                prefix = await reader.readexactly(4)
                frame = prefix + await reader.readexactly(int.from_bytes(prefix, "big"))
            yield Exchange(case, decode_frame(frame), decode_frame(answer))
    finally:
        writer.close()
        await writer.wait_closed()


@pytest_asyncio.fixture(params=["json", "binary"], scope="module", loop_scope="module")
async def replay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    tmp_path = tmp_path_factory.mktemp("namesrv")
    config = NamesrvConfig()
    config.listen_port = 0
    config.kv_config_path = tmp_path / "kvConfig.json"
    config.config_store_path = tmp_path / "namesrv.properties"
    config.order_message_enable = True
    async with NameServer(config) as server:
        return config, [exchange async for exchange in replay_exchanges(server, request.param)]


def test_responses_equal_those_of_java(replay: Replay) -> None:
    _, exchanges = replay

    different = [
        f"{exchange.case}: {what} is {ours!r}, Java's {java!r}"
        for exchange in exchanges
        if exchange.name not in INTENTIONAL
        for what, ours, java in comparisons(exchange)
        if ours != java
    ]

    assert not different, "\n".join(different)


def comparisons(exchange: Exchange) -> Iterator[tuple[str, Any, Any]]:
    ours, java = exchange.ours, exchange.java
    yield "opaque", ours.opaque, java.opaque
    yield "flag", ours.flag, java.flag
    yield "language", ours.language, java.language
    yield "version", ours.version, java.version
    yield "code", ours.code, java.code
    yield "remark", ours.remark, None if exchange.name in LEFTOVER_REMARK else java.remark
    yield "extFields", fields(ours, ours), fields(java, ours)
    yield "body", decoded_body(ours, exchange.name), decoded_body(java, exchange.name)


def fields(answer: Command, ours: Command) -> dict[str, str] | None:
    """The binary header of our responses cannot distinguish a missing field table from an empty one."""
    found = None if answer.ext is None else ext_text(answer.ext)
    return (found or None) if ours.serialization == command.BINARY else found


def decoded_body(answer: Command, name: str) -> Any:
    """The decoded body, with lists sorted: their order in Java is that of its hash tables."""
    if not answer.body:
        return None
    value = unordered(fastjson.parse(answer.body))
    if name in ANY_BROKER:
        del value["brokerAddr"]
    return value


def unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((unordered(item) for item in value), key=repr)
    return value


# Responses with lists in the order of a hash table; the bytes of all others are equal too.
HASHED = {"route-two-brokers", "cluster-info", "topic-list", "system-topics"}


def test_bodies_equal_javas_byte_for_byte_where_no_hash_table_is_involved(replay: Replay) -> None:
    _, exchanges = replay

    for exchange in exchanges:
        if exchange.name not in INTENTIONAL | HASHED:
            assert exchange.ours.body == exchange.java.body, exchange.case


def test_a_response_has_the_serialization_of_its_request(replay: Replay) -> None:
    """Java 5.x always answers in JSON; its clients accept both, and 4.9 did as we do."""
    _, exchanges = replay

    asked = command.JSON if exchanges[0].case.startswith("json/") else command.BINARY

    assert {exchange.ours.serialization for exchange in exchanges} == {asked}
    assert {exchange.java.serialization for exchange in exchanges} == {command.JSON}


def test_the_error_names_a_missing_required_field(replay: Replay) -> None:
    _, exchanges = replay
    refused = [exchange for exchange in exchanges if exchange.name in FIELDS_REQUIRED]

    assert len(refused) == len(FIELDS_REQUIRED)
    for exchange in refused:
        assert exchange.ours.code == ResponseCode.SYSTEM_ERROR
        assert f"{FIELDS_REQUIRED[exchange.name]}`" in (exchange.ours.remark or ""), exchange.case
        assert exchange.ours.body == b""


def test_an_undecodable_body_is_a_system_error(replay: Replay) -> None:
    _, exchanges = replay
    (refused,) = (exchange for exchange in exchanges if exchange.name in EXCEPTION_IN_REMARK)

    assert refused.ours.code == refused.java.code == ResponseCode.SYSTEM_ERROR
    assert "Failed to decode RegisterBrokerBody" in (refused.java.remark or "")
    assert (refused.ours.remark or "").startswith("Failed to decode RegisterBrokerBody: ")


def test_the_configuration_has_javas_keys_and_our_own(replay: Replay) -> None:
    _, exchanges = replay
    (shown,) = (exchange for exchange in exchanges if exchange.name in CONFIG_SHOWN)
    ours, java = properties.parse(shown.ours.body.decode()), properties.parse(shown.java.body.decode())

    assert {key for key in ours.keys() - java.keys() if not key.startswith("tls.")} == OWN_CONFIG
    assert java.keys() - ours.keys() == set()
    assert {key for key in java if ours[key] != java[key]} <= CONFIG_OF_THE_INSTALLATION
    assert list(ours) == sorted(ours)


def test_settings_read_only_at_startup_cannot_be_changed_over_the_wire(replay: Replay) -> None:
    _, exchanges = replay
    (refused,) = (exchange for exchange in exchanges if exchange.name in CONFIG_REFUSED)

    assert (refused.ours.code, refused.java.code) == (ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS)
    assert (refused.ours.remark or "").startswith("serverWorkerThreads cannot be changed while running")


def test_the_final_key_value_file_equals_javas(replay: Replay) -> None:
    config, _ = replay

    ours = KVConfig.decode(config.kv_config_path.read_bytes())

    assert ours == KVConfig.decode((HERE / f"namesrv-{VERSION}-kvConfig.json").read_bytes())
