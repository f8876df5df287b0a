"""Batches over a real socket."""

from pathlib import Path

import pytest

from kerolox.message.batch import Part, encode
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import parse_offset_id
from kerolox.wire.headers.messages import SendBatchMessage, SendMessage, SendMessageV2, Sent
from tests.broker.brokers import BrokerFixture, running, sending

PARTS = [Part(b"one", b"UNIQ_KEY\x01u1\x02KEYS\x01k\x02", 7), Part(b"two", b"UNIQ_KEY\x01u2\x02")]


def batch(topic: str, *, sys_flag: int = 0, properties: str | None = None, queue_id: int = 0) -> SendBatchMessage:
    plain = sending(topic, queue_id, sys_flag)
    return SendBatchMessage(
        producer_group=plain.producer_group,
        topic=topic,
        default_topic=plain.default_topic,
        default_topic_queue_nums=plain.default_topic_queue_nums,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=plain.born_timestamp,
        flag=0,
        properties=properties,
        batch=True,
    )


async def send(broker: BrokerFixture, request: SendMessage | SendMessageV2, parts: list[Part] = PARTS) -> Sent:
    return (await broker.call(request, encode(parts))).fields


async def test_each_message_of_a_batch_has_its_place(broker: BrokerFixture) -> None:
    await broker.send("orders", b"zero", 1)

    sent = await send(broker, batch("orders", queue_id=1, properties="WAIT\x01true\x02UNIQ_KEY\x01whole\x02"))

    assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (1, 1, "whole")
    assert (sent.msg_region, sent.trace_on) == ("DefaultRegion", "true")
    _, first, second = await broker.messages("orders", 1)
    assert (first.body, first.flag, first.parsed) == (b"one", 7, {"UNIQ_KEY": "u1", "KEYS": "k"})
    assert (second.body, second.born_timestamp) == (b"two", first.born_timestamp)
    assert sent.msg_id == f"{first.offset_id},{second.offset_id}"
    assert parse_offset_id(sent.msg_id.split(",")[1])[1] == second.physical_offset


async def test_a_batch_may_be_the_first_of_its_topic(broker: BrokerFixture) -> None:
    assert (await send(broker, batch("orders"))).queue_offset == 0
    assert len(await broker.messages("orders")) == 2


async def test_a_batch_may_come_under_the_codes_of_plain_messages(broker: BrokerFixture) -> None:
    marked = sending("orders")
    marked.batch = True
    old = SendMessage(
        producer_group="p",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=2,
        queue_id=0,
        sys_flag=0,
        born_timestamp=7,
        flag=0,
        batch=True,
    )

    assert (await send(broker, marked)).queue_offset == 0
    assert (await send(broker, old)).queue_offset == 2

    assert [message.body for message in await broker.messages("orders")] == [b"one", b"two", b"one", b"two"]


async def test_a_large_batch_is_stored_whole(broker: BrokerFixture) -> None:
    await broker.send("orders", b"zero")
    parts = [Part(b"%d" % number + bytes(90)) for number in range(1000)]

    sent = await send(broker, batch("orders"), parts)

    assert sent.msg_id is not None
    stored = await broker.messages("orders")
    assert [message.offset_id for message in stored[1:]] == sent.msg_id.split(",")
    assert [message.body for message in stored[1:]] == [part.body for part in parts]


async def test_a_batch_too_long_for_one_turn_is_stored_whole(broker: BrokerFixture) -> None:
    """It is taken apart in a thread, while others are served."""
    await broker.send("orders", b"zero")
    parts = [Part(b"%d" % number, b"UNIQ_KEY\x01u%d\x02" % number) for number in range(1500)]

    sent = await send(broker, batch("orders"), parts)

    assert (sent.queue_offset, sent.msg_id is not None) == (1, True)
    stored = await broker.messages("orders")
    assert [message.body for message in stored[1:]] == [part.body for part in parts]
    assert [message.offset_id for message in stored[1:]] == (sent.msg_id or "").split(",")
    assert broker.counted("TOPIC_PUT_NUMS", "orders") == 1501
    with pytest.raises(MessageIllegal):
        await broker.call(batch("orders"), encode(parts)[:-1])
    assert len(await broker.messages("orders")) == 1501


@pytest.mark.parametrize(
    "request_",
    [
        batch("%RETRY%group"),
        batch("%DLQ%" + "g" * 130),
        batch("orders", sys_flag=0x4),
        batch("orders", properties="DELAY\x013\x02"),
    ],
)
async def test_what_cannot_be_a_batch_is_refused(broker: BrokerFixture, request_: SendBatchMessage) -> None:
    with pytest.raises(MessageIllegal):
        await send(broker, request_)
    assert await broker.messages(request_.topic) == []


@pytest.mark.parametrize("body", [b"", b"not a batch", encode(PARTS)[:-1]])
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_body_that_is_no_batch_is_refused(broker: BrokerFixture, body: bytes, is_known: bool) -> None:
    if is_known:
        await broker.send("orders", b"zero")

    with pytest.raises(MessageIllegal):
        await broker.call(batch("orders"), body)

    assert len(await broker.messages("orders")) == is_known
    assert broker.broker.routes._lanes["send"].under_way == 0


async def test_a_batch_larger_than_a_message_may_be_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, maxMessageSize="1000") as broker:
        with pytest.raises(MessageIllegal):
            await send(broker, batch("orders"), [Part(bytes(500)), Part(bytes(500))])
