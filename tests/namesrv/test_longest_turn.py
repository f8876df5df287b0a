"""No request blocks the NameServer's event loop for long, whatever it contains."""

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from kerolox.codes import RequestCode
from kerolox.wire.header import Request
from tests import hostile
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture

pytestmark = pytest.mark.timeout(600)

KNOWN = {"topic": "T", "brokerName": "broker-a", "clusterName": "C", "brokerAddr": "10.0.0.5:10911"}
_TOPICS = {
    "dataVersion": {"counter": 1},
    "topicConfigTable": {"-": {"topicName": "topic-NAME", "attributes": {"-": "x"}}},
    "topicQueueMappingInfoMap": {"-": {"topic": "topic-NAME", "currIdMap": {"0": 1}}},
}
SAMPLES: dict[int, Any] = {
    RequestCode.REGISTER_BROKER: {"filterServerList": ["f-NAME"], "topicConfigSerializeWrapper": _TOPICS},
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: {
        "queueDatas": [{"brokerName": "broker-a", "readQueueNums": 1}],
        "brokerDatas": [{"brokerName": "b-NAME", "brokerAddrs": {"0": "a"}}],
        "filterServerTable": {"-": ["x"]},
    },
    RequestCode.QUERY_DATA_VERSION: {"counter": 1, "x": [1]},
}
REGISTERING = {"brokerName": "broker-x", "clusterName": "X", "brokerAddr": "10.0.0.9:10911", "brokerId": 0}


def requests(namesrv: NamesrvFixture) -> list[type[Request[Any]]]:
    return [kind for _, kind in sorted(namesrv.server.router.requests.items())]


async def test_no_header_within_the_limit_blocks_the_loop_for_long(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)
    frames = (
        (f"{kind.__name__}: {what}", frame)
        for kind in requests(namesrv)
        for what, frame in hostile.headers(kind, KNOWN)
    )

    assert await hostile.slow(namesrv.address, frames) == {}


async def test_no_header_over_the_limit_blocks_the_loop_for_long(namesrv: NamesrvFixture) -> None:
    frames = (
        (f"{kind.__name__}: {what}", frame)
        for kind in requests(namesrv)
        for what, frame in hostile.over_the_limit(kind)
    )

    assert await hostile.slow(namesrv.address, frames) == {}


async def test_no_malformed_body_blocks_the_loop_for_long(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)
    frames = (
        (f"{kind.__name__}: {what}", hostile.request_frame(kind, {**KNOWN, "compressed": is_compressed}, body))
        for what, body in hostile.bodies()
        for kind in requests(namesrv)
        for is_compressed in (False, True)
        if not is_compressed or kind.code == RequestCode.REGISTER_BROKER
    )

    assert await hostile.slow(namesrv.address, frames) == {}


@pytest.mark.parametrize("code", SAMPLES, ids=lambda code: code.name)
async def test_no_long_list_in_a_body_blocks_the_loop_for_long(namesrv: NamesrvFixture, code: RequestCode) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS)
    kind = namesrv.server.router.requests[code]
    known = REGISTERING if code == RequestCode.REGISTER_BROKER else KNOWN
    frames = ((what, hostile.request_frame(kind, known, body)) for what, body in hostile.bodies_like(SAMPLES[code]))

    assert await hostile.slow(namesrv.address, frames) == {}


def compressed() -> Iterator[tuple[str, bytes]]:
    """Yield compressed registrations that are large when they are inflated."""
    size = struct.Struct(">i")

    def sized(data: bytes) -> bytes:
        return size.pack(len(data)) + data

    def registration(topics: list[bytes], servers: bytes = b"[]", mappings: tuple[bytes, ...] = ()) -> bytes:
        parts = [sized(b"{}"), size.pack(len(topics)), *map(sized, topics), sized(servers), size.pack(len(mappings))]
        return zlib.compress(b"".join([*parts, *map(sized, mappings)]))

    many = [b"topic-%d 4 4 6 SINGLE_TAG {}" % number for number in range(100_000)]
    attributes = b"{" + b",".join(b'"%x":"x"' % number for number in range(400_000)) + b"}"
    yield "100,000 topics", registration(many)
    yield "more than 100,000 topics", registration([b"t 4 4 6 S"] * 300_000)
    yield "many attributes", registration([b"t 4 4 6 S " + attributes])
    yield (
        "many topics with attributes",
        registration([b"t-%d 4 4 6 S " % n + attributes[:5000] + b"}" for n in range(900)]),
    )
    yield "many filter servers", registration(many[:2], b"[" + b'"a",' * 1_000_000 + b'"a"]')
    mapping = b'{"topic":"t","currIdMap":{' + b",".join(b"%d:%d" % (n, n) for n in range(1000)) + b"}}"
    yield "many mappings", registration(many[:2], b"[]", (mapping,) * 500)


async def test_no_compressed_registration_blocks_the_loop_for_long(namesrv: NamesrvFixture) -> None:
    kind = namesrv.server.router.requests[RequestCode.REGISTER_BROKER]
    known = {**REGISTERING, "compressed": True}
    frames = [(what, hostile.request_frame(kind, known, body)) for what, body in compressed()]

    assert await hostile.slow(namesrv.address, frames) == {}
