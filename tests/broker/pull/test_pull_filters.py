"""Pulling by SQL92 expressions over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kerolox.broker.errors import FilterDataNotFound, SubscriptionNotLatest, SubscriptionParseFailed
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, SystemFailure
from kerolox.message.records.record import decode_all
from kerolox.wire.bodies.clients import ConsumerData, HeartbeatData, SubscriptionData
from kerolox.wire.headers.clients import HeartBeat, UnregisterClient
from kerolox.wire.headers.messages import Pulled
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, pulling, running

SQL92 = "SQL92"
SUSPEND = 0x2


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerFixture]:
    async with running(tmp_path / "store", enablePropertyFilter="true") as started:
        yield started


def bodies(reply: Reply[Pulled]) -> list[bytes]:
    return [message.body for message in decode_all(reply.body)]


async def subscribe(
    broker: BrokerFixture,
    text: str,
    version: int = 1,
    topic: str = "orders",
    kind: str = SQL92,
    *,
    class_filter_mode: bool = False,
) -> None:
    subscription = SubscriptionData(
        topic=topic,
        sub_string=text,
        expression_type=kind,
        sub_version=version,
        class_filter_mode=class_filter_mode,
    )
    consumer = ConsumerData(
        group_name="group",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        subscription_data_set=[subscription],
    )
    await broker.call(HeartBeat(), HeartbeatData(client_id="c", consumer_data_set=[consumer]).encode())


async def pull(broker: BrokerFixture, queue_offset: int = 0, **fields: object) -> Reply[Pulled]:
    """Pull with the subscription of the heartbeat."""
    given = {"sys_flag": 0, "subscription": None, "expression_type": None, "sub_version": 1}
    return await broker.pull("orders", queue_offset, 0, **(given | fields))


async def ask_waiting(broker: BrokerFixture, queue_offset: int) -> Reply[Pulled]:
    """Pull with the subscription of the heartbeat, and wait at the end of the queue."""
    fields = {"sys_flag": SUSPEND, "suspend_timeout_millis": 60_000, "subscription": None, "sub_version": 1}
    connection = await broker.client.connection(broker.broker.address)
    answer = await connection.ask(pulling("orders", 0, queue_offset, **fields), timeout_seconds=10)
    assert answer.ext is not None
    return Reply(Pulled.decode(answer.ext), answer.body, answer.code, answer.remark)


async def send_three(broker: BrokerFixture) -> None:
    for number in (1, 5, 9):
        await broker.send("orders", b"%d" % number, a=str(number), TAGS="TagA")


async def test_a_pull_filters_by_the_expression_in_the_request(broker: BrokerFixture) -> None:
    await send_three(broker)

    reply = await broker.pull("orders", 0, subscription="a > 3 AND TAGS = 'TagA'", expression_type=SQL92)

    assert bodies(reply) == [b"5", b"9"]
    assert reply.fields.next_begin_offset == 3


async def test_a_pull_filters_by_the_expression_in_the_heartbeat(broker: BrokerFixture) -> None:
    await send_three(broker)
    await subscribe(broker, "a BETWEEN 2 AND 6")

    assert bodies(await pull(broker)) == [b"5"]


async def test_a_pull_without_matches_is_answered_with_retry_immediately(broker: BrokerFixture) -> None:
    await send_three(broker)
    await subscribe(broker, "a > 100")

    with pytest.raises(AnswerError) as raised:
        await pull(broker)

    assert raised.value.code == ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_slow_filtering_is_interrupted_and_only_a_pull_at_the_end_waits(
    broker: BrokerFixture,
) -> None:
    reader = broker.broker.store.reader
    reader.bounds = msgspec.structs.replace(reader.bounds, look_seconds=0)
    for number in range(70):
        await broker.send("orders", b"%d" % number, a="1")
    await subscribe(broker, "a > 3")
    answers: list[tuple[int, int]] = []
    offset = 0
    while offset < 70:
        reply = await ask_waiting(broker, offset)
        offset = reply.fields.next_begin_offset
        answers.append((reply.code, offset))

    waiting = asyncio.create_task(ask_waiting(broker, offset))
    await broker.until_waiting("orders")
    await broker.send("orders", b"wanted", a="5")

    # The time is checked after as many messages as were requested.
    assert answers == [(ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset) for next_offset in (32, 64, 70)]
    assert bodies(await waiting) == [b"wanted"]


async def test_a_newer_expression_is_valid_from_its_heartbeat_on(broker: BrokerFixture) -> None:
    await send_three(broker)
    await subscribe(broker, "a > 3")
    with pytest.raises(SubscriptionNotLatest):
        await pull(broker, sub_version=2)

    await subscribe(broker, "a < 3", version=2)

    assert bodies(await pull(broker, sub_version=2)) == [b"1"]
    # A pull with the older version is filtered by the newer expression too.
    assert bodies(await pull(broker, sub_version=1)) == [b"1"]


async def test_a_pull_with_an_invalid_expression_gets_the_reason(broker: BrokerFixture) -> None:
    await send_three(broker)
    await subscribe(broker, "a > > 3")

    with pytest.raises(FilterDataNotFound, match=r"Your expression may be wrong! line 1, column 5: found '>'"):
        await pull(broker)
    with pytest.raises(SubscriptionParseFailed, match=r"parse the consumer's subscription failed: line 1, column 5"):
        await broker.pull("orders", 0, subscription="a > > 3", expression_type=SQL92)
    with pytest.raises(SubscriptionParseFailed, match="type 'XPATH' is not supported"):
        await broker.pull("orders", 0, subscription="a > 3", expression_type="XPATH")
    with pytest.raises(SubscriptionParseFailed):
        await broker.pull("orders", 0, subscription=None, expression_type=SQL92)

    await subscribe(broker, "a > 3", version=2)
    assert bodies(await pull(broker, sub_version=2)) == [b"5", b"9"]


async def test_expressions_are_rejected_unless_they_are_enabled(tmp_path: Path) -> None:
    async with running(tmp_path / "store") as broker:
        await send_three(broker)
        await subscribe(broker, "a > 3")
        remark = "The broker does not support consumer to filter message by SQL92"

        with pytest.raises(SystemFailure, match=remark):
            await pull(broker)
        with pytest.raises(SystemFailure, match=remark):
            await broker.pull("orders", 0, subscription="a > 3", expression_type=SQL92)
        assert len(broker.broker.filters) == 0


async def test_a_long_poll_waits_for_a_matching_message(broker: BrokerFixture) -> None:
    await send_three(broker)
    await subscribe(broker, "a > 3")
    waiting = asyncio.create_task(pull(broker, 3, sys_flag=SUSPEND, suspend_timeout_millis=60_000))
    await broker.until_waiting("orders")

    await broker.send("orders", b"2", a="2")
    await broker.until_waiting("orders")
    await broker.send("orders", b"6", a="6")

    reply = await waiting
    assert bodies(reply) == [b"6"]
    assert reply.fields.next_begin_offset == 5


async def test_a_long_poll_for_tags_is_not_answered_with_other_tags(broker: BrokerFixture) -> None:
    await send_three(broker)
    waiting = asyncio.create_task(
        broker.pull("orders", 3, subscription="b", sys_flag=SUSPEND | 0x4, suspend_timeout_millis=60_000)
    )
    await broker.until_waiting("orders")

    await broker.send("orders", b"for a", TAGS="a")
    await broker.until_waiting("orders")
    await broker.send("orders", b"for b", TAGS="b")

    assert bodies(await waiting) == [b"for b"]


async def test_class_filter_mode_is_left_to_filter_servers(broker: BrokerFixture) -> None:
    await send_three(broker)
    await subscribe(broker, "com.example.Filter", kind="TAG", class_filter_mode=True)

    assert bodies(await pull(broker)) == [b"1", b"5", b"9"]


@pytest.mark.parametrize(
    ("supports", "expected"), [("true", [b"wanted", b"other"]), ("false", [b"no", b"wanted", b"other"])]
)
async def test_retries_are_filtered_by_the_expression_of_their_original_topic_if_enabled(
    tmp_path: Path, supports: str, expected: list[bytes]
) -> None:
    async with running(tmp_path / "store", enablePropertyFilter="true", filterSupportRetry=supports) as broker:
        await broker.heartbeat(consumes={"group": ["%RETRY%group"]})
        await subscribe(broker, "a > 3")
        await broker.send("%RETRY%group", b"no", a="1", RETRY_TOPIC="orders")
        await broker.send("%RETRY%group", b"wanted", a="5", RETRY_TOPIC="orders")
        await broker.send("%RETRY%group", b"other", a="1", RETRY_TOPIC="others")

        assert bodies(await broker.pull("%RETRY%group", 0)) == expected


async def test_expressions_survive_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path / "store", enablePropertyFilter="true") as broker:
        await subscribe(broker, "a > 3")

    async with running(tmp_path / "store", enablePropertyFilter="true") as broker:
        known = broker.broker.filters.find("orders", "group")
        assert known is not None
        assert (known.expression.text, known.is_dead) == ("a > 3", True)
        await send_three(broker)
        await subscribe(broker, "a > 3")
        assert not known.is_dead
        assert bodies(await pull(broker)) == [b"5", b"9"]


async def test_bit_maps_filter_before_records_are_read(tmp_path: Path) -> None:
    settings = {"enablePropertyFilter": "true", "enableCalcFilterBitMap": "true", "enableConsumeQueueExt": "true"}
    async with running(tmp_path / "store", **settings) as broker:
        await broker.send("orders", b"before", a="1")
        await broker.send("orders", b"before, wanted", a="7")
        await subscribe(broker, "a > 3")
        known = broker.broker.filters.find("orders", "group")
        assert known is not None
        # A message stored in the same millisecond counts as stored before.
        known.born_millis -= 1
        await send_three(broker)

        read: list[bytes] = []
        message_filter = broker.broker.selector.of_subscription(
            "group", broker.broker.clients.consumers["group"].subscriptions["orders"], 1
        )

        def wants(record: bytes) -> bool:
            read.append(record)
            return True

        broker.broker.store.reader.get("orders", 0, 0, matches=message_filter.matches, wants=wants)

        assert [message.body for message in decode_all(b"".join(read))] == [b"before", b"before, wanted", b"5", b"9"]
        assert bodies(await pull(broker)) == [b"before, wanted", b"5", b"9"]


async def test_an_expression_is_dead_after_its_topic_is_unsubscribed_or_its_group_left(broker: BrokerFixture) -> None:
    await subscribe(broker, "a > 3")
    await subscribe(broker, "a > 3", topic="others")
    filters = broker.broker.filters
    assert {known.topic: known.is_dead for known in filters} == {"orders": True, "others": False}

    await broker.call(UnregisterClient(client_id="c", consumer_group="group"))

    assert {known.topic: known.is_dead for known in filters} == {"orders": True, "others": True}
