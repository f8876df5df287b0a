"""Pulls over a real socket, with and without waiting."""

import asyncio
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.broker.errors import GroupNotFound, InvalidParameter, SubscriptionNotFound
from kerolox.broker.processors.pull import BULK_READERS_MAX, BulkPulls, encode_found
from kerolox.codes import RequestCode, ResponseCode
from kerolox.errors import AnswerError, NoPermission, RemotingError, TopicNotFound
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection
from kerolox.store.config import StoreConfig
from kerolox.store.queue.lookup import GetResult, GetStatus, PullBounds
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT, encode, encode_answer
from kerolox.wire.headers.messages import Pulled
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, greedy, pulling, unsent_size
from tests.remoting.support import Peer, until

SUSPEND = 0x2 | 0x4
MIB = 1024 * 1024


async def test_a_pulled_message_has_the_bytes_of_the_log(broker: BrokerFixture) -> None:
    for number in range(3):
        await broker.send("orders", b"%d" % number)

    reply = await broker.pull("orders", 1)

    assert [message.body for message in decode_all(reply.body, check_crc=True)] == [b"1", b"2"]
    pulled = reply.fields
    assert (pulled.next_begin_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 3)


@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    broker_id=st.integers(0, 2**31 - 1),
    offsets=st.tuples(*[st.integers(-1, 2**63 - 1)] * 3),
    runs=st.lists(st.binary(min_size=1, max_size=20_000), min_size=1, max_size=4),
)
def test_the_preencoded_response_equals_the_encoded_header(
    opaque: int, broker_id: int, offsets: tuple[int, int, int], runs: list[bytes | memoryview]
) -> None:
    got = GetResult(GetStatus.FOUND, *offsets, runs, len(runs), sum(map(len, runs)))
    next_offset, low, high = offsets
    pulled = Pulled(suggest_which_broker_id=broker_id, next_begin_offset=next_offset, min_offset=low, max_offset=high)

    answer = encode_found(opaque, got, broker_id)

    assert answer == encode_answer(JSON, opaque, 0, "FOUND", pulled.ext(), b"", runs)


async def test_binary_pulls_get_binary_responses_and_oneway_pulls_none(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    ext = pulling("orders", 0, 0).ext()
    async with await Peer.to(broker.broker.address) as peer:
        await peer.send(encode(JSON, code=RequestCode.PULL_MESSAGE, opaque=1, flag=ONEWAY_BIT, ext=ext))
        await peer.send(encode(BINARY, code=RequestCode.PULL_MESSAGE, opaque=2, ext=ext))

        answer = await peer.answer()

    assert (answer.opaque, answer.serialization, answer.remark) == (2, BINARY, "FOUND")
    assert [message.body for message in decode_all(answer.body)] == [b"one"]


async def test_a_pull_at_the_end_of_a_queue_gets_the_next_message(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    pull = asyncio.create_task(broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=60_000))
    await broker.until_waiting("orders")

    await broker.send("orders", b"new")

    assert [message.body for message in decode_all((await pull).body)] == [b"new"]


async def test_only_messages_with_the_subscribed_tags_are_pulled(broker: BrokerFixture) -> None:
    for tag in ("a", "b", "c", "a"):
        await broker.send("orders", tag.encode(), TAGS=tag)

    reply = await broker.pull("orders", 0, subscription="a || c")

    assert [message.body for message in decode_all(reply.body)] == [b"a", b"c", b"a"]


async def test_a_response_without_messages_has_all_offsets(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")

    codes = {}
    for offset in (1, 7):
        with pytest.raises(AnswerError) as refused:
            await broker.pull("orders", offset)
        codes[offset] = refused.value.code

    assert codes == {1: ResponseCode.PULL_NOT_FOUND, 7: ResponseCode.PULL_OFFSET_MOVED}


async def test_a_pull_commits_its_offset(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")

    await broker.pull("orders", 0, sys_flag=0x1 | 0x4, commit_offset=1)

    assert broker.broker.offsets.get("group", "orders", 0) == 1


async def test_a_pull_without_a_subscription_needs_a_heartbeat(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    with pytest.raises(SubscriptionNotFound):
        await broker.pull("orders", 0, sys_flag=0)

    await broker.heartbeat(consumes={"group": ["orders"]})

    assert (await broker.pull("orders", 0, sys_flag=0)).fields.next_begin_offset == 1


async def test_invalid_pulls_are_refused_with_their_code(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    with pytest.raises(TopicNotFound):
        await broker.pull("nothing", 0)
    with pytest.raises(InvalidParameter):
        await broker.pull("orders", 0, queue_id=4)
    with pytest.raises(GroupNotFound):
        await broker.pull("orders", 0, consumer_group="no good")
    broker.broker.groups.find("group").consume_enable = False
    with pytest.raises(NoPermission):
        await broker.pull("orders", 0)


async def test_a_bulk_pull_gets_more_than_an_ordinary_one(broker: BrokerFixture) -> None:
    for number in range(100):
        await broker.send("orders", b"%d" % number)

    usual = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=256 * 1024)
    bulk = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=2 * 1024 * 1024)
    few = await broker.pull("orders", 0, max_msg_nums=50, max_msg_bytes=2 * 1024 * 1024)

    assert [reply.fields.next_begin_offset for reply in (usual, bulk, few)] == [32, 100, 50]
    assert len(decode_all(bulk.body, check_crc=True)) == 100


async def test_a_bulk_pull_respects_the_requested_and_the_allowed_bytes(broker: BrokerFixture) -> None:
    for _ in range(20):
        await broker.send("orders", bytes(100_000))
    broker.broker.store.reader.bulk_bounds = PullBounds((4096, 1_000_000), (4096, 1_000_000))

    requested = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=500_000)
    allowed = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=10_000_000)

    assert [reply.fields.next_begin_offset for reply in (requested, allowed)] == [4, 9]


async def test_a_bulk_pull_reads_messages_that_are_not_in_memory(broker: BrokerFixture) -> None:
    for number in range(40):
        await broker.send("orders", b"%d" % number)
    broker.broker.store.reader.bounds = PullBounds(memory_size=0)

    usual = await broker.pull("orders", 0, max_msg_nums=32)
    bulk = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=1_000_000)

    assert [reply.fields.next_begin_offset for reply in (usual, bulk)] == [8, 40]


async def test_waiting_pulls_use_no_queue_capacity(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    request_queue = broker.broker.parts.request_queues["pull"]
    request_queue.capacity = 1
    pulls: list[asyncio.Task[Reply[Pulled]]] = []
    while len(pulls) < 2:
        pulls.append(asyncio.create_task(broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=60_000)))
        await until(lambda: request_queue.parked == len(pulls))

    await broker.send("orders", b"new")

    for pull in pulls:
        assert [message.body for message in decode_all((await pull).body)] == [b"new"]
    assert (request_queue.under_way, request_queue.parked) == (0, 0)


async def test_a_waiting_pull_ends_with_its_connection(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    async with Client() as leaving:
        request = pulling("orders", 0, 1, sys_flag=SUSPEND, suspend_timeout_millis=2**62)
        pull = asyncio.create_task(leaving.call(broker.broker.address, request, timeout_seconds=60))
        await broker.until_waiting("orders")
    with pytest.raises(RemotingError):
        await pull

    await until(lambda: not broker.broker.store.message_waiters.waiting("orders", 0))

    request_queue = broker.broker.parts.request_queues["pull"]
    assert (request_queue.under_way, request_queue.parked) == (0, 0)


async def test_the_number_of_waiting_pulls_is_limited(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    broker.broker.parts.request_queues["pull"].parked_max = 0

    with pytest.raises(AnswerError) as refused:
        await broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=600_000)

    assert refused.value.code == ResponseCode.PULL_NOT_FOUND


async def test_the_waiting_time_of_a_pull_is_limited(broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerolox.broker.processors.pull.WAIT_SECONDS_MAX", 0.01)
    await broker.send("orders", b"old")

    with pytest.raises(AnswerError) as refused:
        await broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=2**62)

    assert refused.value.code == ResponseCode.PULL_NOT_FOUND


async def test_waiting_pulls_of_a_client_that_does_not_read_get_no_messages(broker: BrokerFixture) -> None:
    """One message wakes all pulls of a connection; responses to a peer that does not read must not pile up."""
    await broker.send("orders", b"old")
    request_queue, body = broker.broker.parts.request_queues["pull"], bytes(200 * 1024)
    waiting = pulling("orders", 0, 1, sys_flag=SUSPEND, suspend_timeout_millis=60_000)
    async with greedy(broker, [waiting] * 100) as peer:
        await until(lambda: request_queue.parked == 100)
        other = asyncio.create_task(broker.call(waiting))
        await until(lambda: request_queue.parked == 101)

        await broker.send("orders", body)

        assert [message.body for message in decode_all((await other).body)] == [body]
        await until(
            lambda: not broker.broker.store.message_waiters.waiting("orders", 0) and not request_queue.under_way
        )
        assert request_queue.parked
        assert unsent_size(broker) < 1024 * 1024
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert {len(answer.body) > len(body) for answer in await peer.answers(100)} == {True}
    assert (request_queue.under_way, request_queue.parked) == (0, 0)


class Reader:
    """The attributes of a connection that BulkPulls uses."""

    def __init__(self, unsent_size: int = 0) -> None:
        self.unsent_size = unsent_size
        self.is_closed = False


def _admits(bulk: BulkPulls, reader: Reader, bytes_asked: int = 4 * MIB) -> bool:
    return bulk.admits(cast("Connection", reader), bytes_asked)


def test_a_pull_that_asks_for_an_ordinary_size_is_not_bulk() -> None:
    assert not _admits(BulkPulls(StoreConfig()), Reader(), 256 * 1024)


def test_no_bulk_pull_is_admitted_while_too_much_is_unsent() -> None:
    bulk = BulkPulls(StoreConfig(bulk_pull_bytes_max=4 * MIB, bulk_pull_bytes_pending_max=10 * MIB))
    slow, slower = Reader(), Reader()
    assert _admits(bulk, slow)
    slow.unsent_size = 4 * MIB
    assert _admits(bulk, slower)
    slower.unsent_size = 4 * MIB

    assert not _admits(bulk, Reader())

    slow.unsent_size = 0
    assert _admits(bulk, Reader())


def test_unsent_bytes_of_closed_connections_do_not_count() -> None:
    bulk = BulkPulls(StoreConfig(bulk_pull_bytes_pending_max=5 * MIB))
    closed = Reader()
    assert _admits(bulk, closed)
    closed.unsent_size, closed.is_closed = 4 * MIB, True

    assert _admits(bulk, Reader())


def test_the_number_of_bulk_readers_is_limited() -> None:
    bulk = BulkPulls(StoreConfig())
    for _ in range(BULK_READERS_MAX):
        assert _admits(bulk, Reader(1))

    assert not _admits(bulk, Reader())
