"""Pulling over a real socket, at once and when something comes."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.broker.errors import GroupNotFound, InvalidParameter, SubscriptionNotFound
from kerolox.broker.processors.pull import found_answer
from kerolox.codes import RequestCode, ResponseCode
from kerolox.errors import AnswerError, NoPermission, RemotingError, TopicNotFound
from kerolox.message.record import decode_all
from kerolox.remoting.client import Client
from kerolox.store.queue.pull import GetStatus, Got, PullBounds
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT, encode, encode_answer
from kerolox.wire.headers.messages import Pulled
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, greedy, pulling, unsent_size
from tests.remoting.support import Peer, until

SUSPEND = 0x2 | 0x4


async def test_what_was_sent_is_pulled_as_it_lies_in_the_log(broker: BrokerFixture) -> None:
    for number in range(3):
        await broker.send("orders", b"%d" % number)

    reply = await broker.pull("orders", 1)

    assert [message.body for message in decode_all(reply.body, check_crc=True)] == [b"1", b"2"]
    pulled = reply.fields
    assert (pulled.next_begin_offset, pulled.min_offset, pulled.max_offset) == (3, 0, 3)


@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    offsets=st.tuples(*[st.integers(-1, 2**63 - 1)] * 3),
    runs=st.lists(st.binary(min_size=1, max_size=20_000), min_size=1, max_size=4),
)
def test_what_is_found_is_answered_as_its_header_would_be(
    opaque: int, offsets: tuple[int, int, int], runs: list[bytes | memoryview]
) -> None:
    got = Got(GetStatus.FOUND, *offsets, runs, len(runs), sum(map(len, runs)))
    next_offset, low, high = offsets
    pulled = Pulled(suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=low, max_offset=high)

    answer = found_answer(opaque, got)

    assert answer == encode_answer(JSON, opaque, 0, "FOUND", pulled.ext(), b"", runs)


async def test_a_binary_pull_and_a_oneway_one_are_answered_in_their_way(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    ext = pulling("orders", 0, 0).ext()
    async with await Peer.to(broker.broker.address) as peer:
        await peer.send(encode(JSON, code=RequestCode.PULL_MESSAGE, opaque=1, flag=ONEWAY_BIT, ext=ext))
        await peer.send(encode(BINARY, code=RequestCode.PULL_MESSAGE, opaque=2, ext=ext))

        answer = await peer.answer()

    assert (answer.opaque, answer.serialization, answer.remark) == (2, BINARY, "FOUND")
    assert [message.body for message in decode_all(answer.body)] == [b"one"]


async def test_a_pull_at_the_end_of_a_queue_is_answered_by_the_next_message(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    pull = asyncio.create_task(broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=60_000))
    await broker.until_waiting("orders")

    await broker.send("orders", b"new")

    assert [message.body for message in decode_all((await pull).body)] == [b"new"]


async def test_only_the_tags_that_are_wanted_come(broker: BrokerFixture) -> None:
    for tag in ("a", "b", "c", "a"):
        await broker.send("orders", tag.encode(), TAGS=tag)

    reply = await broker.pull("orders", 0, subscription="a || c")

    assert [message.body for message in decode_all(reply.body)] == [b"a", b"c", b"a"]


async def test_where_nothing_is_the_answer_says_so_with_all_offsets(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")

    codes = {}
    for offset in (1, 7):
        with pytest.raises(AnswerError) as refused:
            await broker.pull("orders", offset)
        codes[offset] = refused.value.code

    assert codes == {1: ResponseCode.PULL_NOT_FOUND, 7: ResponseCode.PULL_OFFSET_MOVED}


async def test_a_pull_commits_what_was_consumed(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")

    await broker.pull("orders", 0, sys_flag=0x1 | 0x4, commit_offset=1)

    assert broker.broker.offsets.get("group", "orders", 0) == 1


async def test_who_pulls_without_a_subscription_must_have_sent_a_heartbeat(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    with pytest.raises(SubscriptionNotFound):
        await broker.pull("orders", 0, sys_flag=0)

    await broker.heartbeat(consumes={"group": ["orders"]})

    assert (await broker.pull("orders", 0, sys_flag=0)).fields.next_begin_offset == 1


async def test_what_cannot_be_pulled_is_refused_with_its_code(broker: BrokerFixture) -> None:
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


async def test_who_asks_for_so_many_bytes_gets_more_than_consumers_do(broker: BrokerFixture) -> None:
    for number in range(100):
        await broker.send("orders", b"%d" % number)

    usual = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=256 * 1024)
    bulk = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=2 * 1024 * 1024)
    few = await broker.pull("orders", 0, max_msg_nums=50, max_msg_bytes=2 * 1024 * 1024)

    assert [reply.fields.next_begin_offset for reply in (usual, bulk, few)] == [32, 100, 50]
    assert len(decode_all(bulk.body, check_crc=True)) == 100


async def test_a_pull_in_bulk_keeps_to_the_bytes_it_asks_for_and_to_those_allowed(broker: BrokerFixture) -> None:
    for _ in range(20):
        await broker.send("orders", bytes(100_000))
    broker.broker.store.reader.bulk_bounds = PullBounds((4096, 1_000_000), (4096, 1_000_000))

    asked = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=500_000)
    allowed = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=10_000_000)

    assert [reply.fields.next_begin_offset for reply in (asked, allowed)] == [4, 9]


async def test_a_pull_in_bulk_reads_what_is_no_longer_in_memory_just_as_well(broker: BrokerFixture) -> None:
    for number in range(40):
        await broker.send("orders", b"%d" % number)
    broker.broker.store.reader.bounds = PullBounds(memory_size=0)

    usual = await broker.pull("orders", 0, max_msg_nums=32)
    bulk = await broker.pull("orders", 0, max_msg_nums=1000, max_msg_bytes=1_000_000)

    assert [reply.fields.next_begin_offset for reply in (usual, bulk)] == [8, 40]


async def test_pulls_that_wait_take_no_place_from_others(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    lane = broker.broker.routes._lanes["pull"]
    lane.capacity = 1
    pulls: list[asyncio.Task[Reply[Pulled]]] = []
    while len(pulls) < 2:
        pulls.append(asyncio.create_task(broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=60_000)))
        await until(lambda: lane.parked == len(pulls))

    await broker.send("orders", b"new")

    for pull in pulls:
        assert [message.body for message in decode_all((await pull).body)] == [b"new"]
    assert (lane.under_way, lane.parked) == (0, 0)


async def test_a_pull_that_waits_ends_with_its_connection(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    async with Client() as leaving:
        request = pulling("orders", 0, 1, sys_flag=SUSPEND, suspend_timeout_millis=2**62)
        pull = asyncio.create_task(leaving.call(broker.broker.address, request, timeout_seconds=60))
        await broker.until_waiting("orders")
    with pytest.raises(RemotingError):
        await pull

    await until(lambda: not broker.broker.store.arrivals.waiting("orders", 0))

    lane = broker.broker.routes._lanes["pull"]
    assert (lane.under_way, lane.parked) == (0, 0)


async def test_a_pull_does_not_wait_where_too_many_do(broker: BrokerFixture) -> None:
    await broker.send("orders", b"old")
    broker.broker.routes._lanes["pull"].parked_max = 0

    with pytest.raises(AnswerError) as refused:
        await broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=600_000)

    assert refused.value.code == ResponseCode.PULL_NOT_FOUND


async def test_nobody_waits_for_ever(broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerolox.broker.processors.pull.WAIT_SECONDS_MAX", 0.01)
    await broker.send("orders", b"old")

    with pytest.raises(AnswerError) as refused:
        await broker.pull("orders", 1, sys_flag=SUSPEND, suspend_timeout_millis=2**62)

    assert refused.value.code == ResponseCode.PULL_NOT_FOUND


async def test_a_message_is_read_for_those_who_read_what_they_got(broker: BrokerFixture) -> None:
    """One message wakes all pulls of a connection; the answers to a peer that does not read must not pile up."""
    await broker.send("orders", b"old")
    lane, body = broker.broker.routes._lanes["pull"], bytes(200 * 1024)
    waiting = pulling("orders", 0, 1, sys_flag=SUSPEND, suspend_timeout_millis=60_000)
    async with greedy(broker, [waiting] * 100) as peer:
        await until(lambda: lane.parked == 100)
        other = asyncio.create_task(broker.call(waiting))
        await until(lambda: lane.parked == 101)

        await broker.send("orders", body)

        assert [message.body for message in decode_all((await other).body)] == [body]
        await until(lambda: not broker.broker.store.arrivals.waiting("orders", 0) and not lane.under_way)
        assert lane.parked
        assert unsent_size(broker) < 1024 * 1024
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert {len(answer.body) > len(body) for answer in await peer.answers(100)} == {True}
    assert (lane.under_way, lane.parked) == (0, 0)
