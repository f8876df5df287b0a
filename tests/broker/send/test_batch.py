"""Batches over a real socket."""

import asyncio
import threading
from pathlib import Path

import pytest

from kerolox.errors import SystemBusy
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import parse_offset_id
from kerolox.message.message import Message
from kerolox.message.records.batch import Part, encode
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.store import Store
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


class SlowDrafts:
    """Batches are taken apart when they are let go; it notes in which order, and what else becomes of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.let_go = threading.Semaphore(0), threading.Semaphore(0)
        self.events: list[str] = []
        plain, put = MessageEncoder.encode_batch, Store.put

        def batch(drafts: MessageEncoder, shared: Message, body: bytes) -> Append:
            self.events.append("begun")
            self.begun.release()
            assert self.let_go.acquire(timeout=20)
            return plain(drafts, shared, body)

        async def noted(store: Store, draft: Append) -> tuple[Appended, AckStatus]:
            stored = await put(store, draft)
            self.events.append("stored")
            return stored

        monkeypatch.setattr(MessageEncoder, "encode_batch", batch)
        monkeypatch.setattr(Store, "put", noted)

    async def started(self) -> None:
        assert await asyncio.to_thread(self.begun.acquire, timeout=20)


async def test_long_batches_are_stored_one_after_the_other_and_what_waits_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [Part(b"")] * 1500
    async with running(tmp_path, putBytesPendingMax=str(len(encode(parts)) * 3)) as broker:
        await broker.send("orders", b"zero")
        drafts = SlowDrafts(monkeypatch)

        sends = [asyncio.create_task(send(broker, batch("orders"), parts)) for _ in range(5)]
        await drafts.started()
        refused, _ = await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
        while len(refused) < 2:
            refused, _ = await asyncio.wait(sends, timeout=0)
        # Single messages do not wait for long batches.
        await broker.send("orders", b"meanwhile")

        assert len(refused) == 2
        for each in refused:
            with pytest.raises(SystemBusy, match="99000 bytes of long batches wait to be stored, at most 99000"):
                await each
        drafts.let_go.release(3)
        stored = [await each for each in sends if each not in refused]
        assert [sent.queue_offset for sent in stored] == [2, 1502, 3002]
        assert drafts.events == ["begun", "stored"] * 3
        assert broker.broker.router._request_queues["send"].under_way == 0


async def test_a_long_batch_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Part(b"")] * 1500
    async with running(tmp_path, syncFlushTimeout="30") as broker:
        await broker.send("orders", b"zero")
        drafts = SlowDrafts(monkeypatch)
        first = asyncio.create_task(send(broker, batch("orders"), parts))
        await drafts.started()

        with pytest.raises(
            SystemBusy, match=r"\[TIMEOUT_CLEAN_QUEUE\]broker busy.* period in queue: 30ms, size of queue: 2"
        ):
            await send(broker, batch("orders"), parts)

        drafts.let_go.release(2)
        assert (await first).queue_offset == 1
        assert (await send(broker, batch("orders"), parts)).queue_offset == 1501


async def test_a_batch_has_no_more_messages_than_the_configuration_says(tmp_path: Path) -> None:
    """All of them are shown to readers at once, and nobody else has a turn meanwhile."""
    async with running(tmp_path, batchPartsMax="1500") as broker:
        assert (await send(broker, batch("orders"), [Part(b"")] * 1500)).queue_offset == 0

        with pytest.raises(MessageIllegal, match="batch of more than 1500 messages"):
            await send(broker, batch("orders"), [Part(b"")] * 1501)

        assert (await send(broker, batch("orders"))).queue_offset == 1500


@pytest.mark.parametrize(
    "request_",
    [
        batch("%RETRY%group"),
        batch("%DLQ%" + "g" * 130),
        batch("orders", sys_flag=0x4),
        batch("orders", properties="DELAY\x013\x02"),
    ],
)
async def test_a_malformed_batch_is_refused(broker: BrokerFixture, request_: SendBatchMessage) -> None:
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
    assert broker.broker.router._request_queues["send"].under_way == 0


async def test_a_batch_larger_than_a_message_may_be_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, maxMessageSize="1000") as broker:
        with pytest.raises(MessageIllegal):
            await send(broker, batch("orders"), [Part(bytes(500)), Part(bytes(500))])
