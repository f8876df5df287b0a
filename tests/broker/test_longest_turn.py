"""No request blocks the event loop of the broker for long, however hostile it is."""

import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from kerolox.codes import RequestCode
from kerolox.wire.header import Request
from tests import hostile
from tests.broker.brokers import BrokerFixture, running
from tests.remoting.support import Peer, complaints

pytestmark = pytest.mark.timeout(600)

# Header field -> a value that exists in the broker.
KNOWN = {
    "topic": "orders",
    "b": "orders",
    "consumerGroup": "group",
    "group": "group",
    "producerGroup": "group",
    "a": "group",
    "c": "TBW102",
    "defaultTopic": "TBW102",
    "d": 4,
    "defaultTopicQueueNums": 4,
}
# A JSON body for each request that has one; NAME is replaced by a different text in each item.
_QUEUES = {"clientId": "c", "consumerGroup": "group", "mqSet": [{"brokerName": "b", "queueId": 0, "topic": "NAME"}]}
_SUBSCRIPTION = {
    "topic": "topic-NAME",
    "expressionType": "SQL92",
    "subString": "a > 1",
    "codeSet": [1],
    "tagsSet": ["NAME"],
}
SAMPLES: dict[int, Any] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [{"topicName": "topic-NAME"}]},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [{"groupName": "group-NAME"}]},
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: {
        "groupName": "group",
        "attributes": {"+NAME": "b"},
        "groupRetryPolicy": {"customizedRetryPolicy": {"next": [1]}},
        "subscriptionDataSet": [{}],
    },
    RequestCode.HEART_BEAT: {
        "clientID": "c",
        "consumerDataSet": [{"groupName": "group-NAME", "subscriptionDataSet": [_SUBSCRIPTION]}],
        "producerDataSet": [{"groupName": "group-NAME"}],
    },
    RequestCode.LOCK_BATCH_MQ: _QUEUES,
    RequestCode.UNLOCK_BATCH_MQ: _QUEUES,
    RequestCode.CHECK_CLIENT_CONFIG: {"clientId": "c", "group": "group", "subscriptionData": _SUBSCRIPTION},
    RequestCode.BATCH_ACK_MESSAGE: {
        "brokerName": "b",
        "acks": [
            {"c": "group", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": "////////////"}
        ],
    },
    RequestCode.QUERY_ASSIGNMENT: {
        "topic": "orders",
        "consumerGroup": "group",
        "clientId": "c",
        "messageModel": "x",
        "x": [1],
    },
    RequestCode.SET_MESSAGE_REQUEST_MODE: {"topic": "orders", "consumerGroup": "group", "mode": "POP", "x": [1]},
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerFixture]:
    # A file of the log has room for a long batch.
    changes = {"enablePropertyFilter": "true", "mappedFileSizeCommitLog": str(32 * 1024 * 1024)}
    async with running(tmp_path, **changes) as started:
        await started.send("orders", b"1")
        await started.heartbeat("c", consumes={"group": ["orders"]})
        yield started


def requests(broker: BrokerFixture) -> list[type[Request[Any]]]:
    return [kind for _, kind in sorted(broker.broker.router.requests.items())]


async def test_no_header_within_the_limit_blocks_the_loop(broker: BrokerFixture) -> None:
    frames = (
        (f"{kind.__name__}: {what}", frame) for kind in requests(broker) for what, frame in hostile.headers(kind, KNOWN)
    )

    assert await hostile.slow(broker.broker.address, frames) == {}


async def test_no_header_over_the_limit_blocks_the_loop(broker: BrokerFixture) -> None:
    frames = (
        (f"{kind.__name__}: {what}", frame) for kind in requests(broker) for what, frame in hostile.over_the_limit(kind)
    )

    assert await hostile.slow(broker.broker.address, frames) == {}


async def test_a_header_over_the_limit_closes_the_connection_with_the_setting_in_the_log(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    async with await Peer.to(broker.broker.address) as peer:
        await peer.send(hostile.frame(b" " * 65_537))

        assert await peer.rest() == b""
        assert complaints(caplog) == [
            f"closed the connection from {peer.name}: header of 65537 bytes exceeds the limit of 65536 "
            "(frameHeaderBytesMax)"
        ]


async def test_the_longest_properties_of_a_message_fit_into_a_header(broker: BrokerFixture) -> None:
    """Quote are the most expensive common character: each takes two bytes in JSON."""
    text = '"' * 20_000 + "x" * 10_000

    await broker.send("orders", b"2", 1, text=text)

    (stored,) = await broker.messages("orders", 1)
    assert stored.properties.count(b'"') == 20_000


async def test_no_body_of_an_unexpected_shape_blocks_the_loop(broker: BrokerFixture) -> None:
    frames = (
        (f"{kind.__name__}: {what}", hostile.request_frame(kind, KNOWN, body))
        for what, body in hostile.bodies()
        for kind in requests(broker)
    )

    assert await hostile.slow(broker.broker.address, frames) == {}


@pytest.mark.parametrize("code", SAMPLES, ids=lambda code: code.name)
async def test_no_long_list_in_a_body_blocks_the_loop(broker: BrokerFixture, code: RequestCode) -> None:
    kind = broker.broker.router.requests[code]
    values_max = 199_000 if code == RequestCode.UPDATE_AND_CREATE_TOPIC_LIST else 99_000
    frames = (
        (what, hostile.request_frame(kind, KNOWN, body))
        for what, body in hostile.bodies_like(SAMPLES[code], values_max=values_max)
    )

    assert await hostile.slow(broker.broker.address, frames) == {}


def batches() -> Iterator[tuple[str, bytes]]:
    """Yield batches up to the largest that a broker accepts, and larger ones."""
    # Length, magic, checksum, flag, body and its length, properties and their length.
    message = struct.pack(">iiiii1sh", 23, 0, 0, 0, 1, b"x", 0)
    for count in (1024, 32_768, 182_000, 680_000):
        yield f"{count} messages of one byte", message * count


async def test_no_batch_of_messages_blocks_the_loop(broker: BrokerFixture) -> None:
    kind = broker.broker.router.requests[RequestCode.SEND_BATCH_MESSAGE]
    frames = [(what, hostile.request_frame(kind, {**KNOWN, "m": True}, body)) for what, body in batches()]

    assert await hostile.slow(broker.broker.address, frames) == {}
    # The shorter ones were stored.
    assert broker.broker.store.reader.max_offset("orders", 0) > 32_768
