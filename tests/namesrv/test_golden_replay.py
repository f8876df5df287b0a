"""What was asked of Java's NameServer 5.5.0 is asked of ours, in the same order; the answers are compared.

Each serialization has a server of its own and all of its requests come on one connection, as when they were recorded
(tests/golden/README.md). What is answered otherwise on purpose stands in a table below, with the reason.
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
from kerolox.runtime import fastjson, properties
from kerolox.wire import command
from kerolox.wire.bodies.kv import KVConfig
from kerolox.wire.command import Command
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import ext_text
from tests.golden.recordings import HERE, Direction, load

VERSION = "5.5.0"

# Java decodes a header in which required fields are missing and goes on with null: it finds nothing for the topic
# "null", or deletes what is not there and reports success. We say which field is missing (SYSTEM_ERROR).
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

# Java sends the remark with which every response of it begins, although the request succeeded.
REMARK_FORGOTTEN = {"member-group-unknown-broker", "member-group"}

# Java says `any broker`: the first in the order of a hash table.
ANY_BROKER = {"system-topics"}

# The remark is Java's exception with a line of its source; ours says what could not be read. Java's answer has no
# fields because it was made anew; ours has those (none set) of any failed registration.
EXCEPTION_SHOWN = {"register-with-malformed-body"}

# Sizes of thread pools and the like are read at the start only, and we say so (NO_PERMISSION) where Java accepts the
# value and goes on with the old threads.
CONFIG_REFUSED = {"config-update"}

CONFIG_SHOWN = {"config"}
# Where the server lies, and the value that was refused above.
CONFIG_OF_THE_PLACE = {"configStorePath", "kvConfigPath", "listenPort", "rocketmqHome", "serverWorkerThreads"}
# Ours alone: bounds that Java does not have, and TLS, which Java keeps in system properties.
CONFIG_OF_OURS = {
    "brokerNumsMax",
    "topicNumsMax",
    "kvConfigBytesMax",
    "connectionRequestsMax",
    "partialFrameTimeSeconds",
    "serverConnectionsMax",
    "partialFrameBytesMax",
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

ON_PURPOSE = FIELDS_REQUIRED.keys() | EXCEPTION_SHOWN | CONFIG_REFUSED | CONFIG_SHOWN


@dataclass(frozen=True, slots=True)
class Exchange:
    case: str
    ours: Command
    java: Command

    @property
    def name(self) -> str:
        return self.case.partition("/")[2]


Replay = tuple[NamesrvConfig, list[Exchange]]


def read(frame: bytes) -> Command:
    (found,) = FrameReader().feed(frame)
    return command.decode(found)


def recorded(serialization: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Case, request and answer; 5.5.0 answers everything that is in these recordings."""
    recordings = [each for each in load(VERSION) if each.case.startswith(f"{serialization}/")]
    requests, answers = recordings[::2], recordings[1::2]
    for request, answer in zip(requests, answers, strict=True):
        assert (request.direction, answer.direction) == (Direction.REQUEST, Direction.RESPONSE)
        assert request.case == answer.case
        yield request.case, request.frame, answer.frame


async def replayed(server: NameServer, serialization: str) -> AsyncIterator[Exchange]:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for case, request, answer in recorded(serialization):
            writer.write(request)
            async with asyncio.timeout(5):
                prefix = await reader.readexactly(4)
                frame = prefix + await reader.readexactly(int.from_bytes(prefix, "big"))
            yield Exchange(case, read(frame), read(answer))
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
        return config, [exchange async for exchange in replayed(server, request.param)]


def test_the_answers_are_those_of_java(replay: Replay) -> None:
    _, exchanges = replay

    different = [
        f"{exchange.case}: {what} is {ours!r}, Java's {java!r}"
        for exchange in exchanges
        if exchange.name not in ON_PURPOSE
        for what, ours, java in compared(exchange)
        if ours != java
    ]

    assert not different, "\n".join(different)


def compared(exchange: Exchange) -> Iterator[tuple[str, Any, Any]]:
    ours, java = exchange.ours, exchange.java
    yield "opaque", ours.opaque, java.opaque
    yield "flag", ours.flag, java.flag
    yield "language", ours.language, java.language
    yield "version", ours.version, java.version
    yield "code", ours.code, java.code
    yield "remark", ours.remark, None if exchange.name in REMARK_FORGOTTEN else java.remark
    yield "extFields", fields(ours, ours), fields(java, ours)
    yield "body", said(ours, exchange.name), said(java, exchange.name)


def fields(answer: Command, ours: Command) -> dict[str, str] | None:
    """The binary header, in which we answer a binary request, cannot tell no fields from none set."""
    found = None if answer.ext is None else ext_text(answer.ext)
    return (found or None) if ours.serialization == command.BINARY else found


def said(answer: Command, name: str) -> Any:
    """The body as a value, in which the order of lists does not count: Java's is that of its hash tables."""
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


# Where nothing was hashed, the bytes are the same as well.
HASHED = {"route-two-brokers", "cluster-info", "topic-list", "system-topics"}


def test_the_bodies_are_those_of_java_to_the_byte_where_java_hashes_nothing(replay: Replay) -> None:
    _, exchanges = replay

    for exchange in exchanges:
        if exchange.name not in ON_PURPOSE | HASHED:
            assert exchange.ours.body == exchange.java.body, exchange.case


def test_a_request_is_answered_in_its_own_serialization(replay: Replay) -> None:
    """Java 5.x answers in JSON whatever it is asked in; either is fine with its clients, and 4.9 did as we do."""
    _, exchanges = replay

    asked = command.JSON if exchanges[0].case.startswith("json/") else command.BINARY

    assert {exchange.ours.serialization for exchange in exchanges} == {asked}
    assert {exchange.java.serialization for exchange in exchanges} == {command.JSON}


def test_a_field_that_is_required_is_missed_by_name(replay: Replay) -> None:
    _, exchanges = replay
    refused = [exchange for exchange in exchanges if exchange.name in FIELDS_REQUIRED]

    assert len(refused) == len(FIELDS_REQUIRED)
    for exchange in refused:
        assert exchange.ours.code == ResponseCode.SYSTEM_ERROR
        assert f"{FIELDS_REQUIRED[exchange.name]}`" in (exchange.ours.remark or ""), exchange.case
        assert exchange.ours.body == b""


def test_a_body_that_cannot_be_read_is_a_system_error_in_our_words(replay: Replay) -> None:
    _, exchanges = replay
    (refused,) = (exchange for exchange in exchanges if exchange.name in EXCEPTION_SHOWN)

    assert refused.ours.code == refused.java.code == ResponseCode.SYSTEM_ERROR
    assert "Failed to decode RegisterBrokerBody" in (refused.java.remark or "")
    assert (refused.ours.remark or "").startswith("Failed to decode RegisterBrokerBody: ")


def test_the_configuration_is_javas_with_keys_of_our_own(replay: Replay) -> None:
    _, exchanges = replay
    (shown,) = (exchange for exchange in exchanges if exchange.name in CONFIG_SHOWN)
    ours, java = properties.parse(shown.ours.body.decode()), properties.parse(shown.java.body.decode())

    assert {key for key in ours.keys() - java.keys() if not key.startswith("tls.")} == CONFIG_OF_OURS
    assert java.keys() - ours.keys() == set()
    assert {key for key in java if ours[key] != java[key]} <= CONFIG_OF_THE_PLACE
    assert list(ours) == sorted(ours)


def test_what_is_fixed_at_the_start_cannot_be_changed_over_the_wire(replay: Replay) -> None:
    _, exchanges = replay
    (refused,) = (exchange for exchange in exchanges if exchange.name in CONFIG_REFUSED)

    assert (refused.ours.code, refused.java.code) == (ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS)
    assert (refused.ours.remark or "").startswith("serverWorkerThreads cannot be changed while running")


def test_the_key_value_file_says_in_the_end_what_javas_says(replay: Replay) -> None:
    config, _ = replay

    ours = KVConfig.decode(config.kv_config_path.read_bytes())

    assert ours == KVConfig.decode((HERE / f"namesrv-{VERSION}-kvConfig.json").read_bytes())
