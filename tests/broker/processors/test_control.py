"""Consumers that are told where to go on, and asked what they do."""

import asyncio
from pathlib import Path

import pytest

from kerolox.broker.errors import ConsumerNotOnline, ConsumeTimeout, GroupNotFound, InvalidParameter
from kerolox.broker.processors import control
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, SystemBusy, SystemFailure, TopicNotFound
from kerolox.message.record import decode_all
from kerolox.runtime import fastjson
from kerolox.wire.bodies.offsets import ConsumerStatusTable, QueueOffset, ResetOffsetBodyForC
from kerolox.wire.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo
from kerolox.wire.headers.offsets import (
    GetConsumerStatus,
    QueryConsumerOffset,
    ResetConsumerClientOffset,
    ResetOffset,
    UpdateConsumerOffset,
)
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, greedy, pulling, running, unsent_size
from tests.broker.consumers import consuming, offsets_in
from tests.remoting.support import until

SUSPEND = 0x2 | 0x4


def resetting(timestamp: int = 0, **fields: object) -> ResetOffset:
    given = {"topic": "orders", "group": "group", "timestamp": timestamp, "is_force": True}
    return ResetOffset(**(given | fields))  # type: ignore[arg-type]


async def send_three(broker: BrokerFixture) -> None:
    for number in range(3):
        await broker.send("orders", b"%d" % number)
    broker.broker.groups.find("group")


async def next_offset(broker: BrokerFixture, queue_offset: int, **fields: object) -> int:
    """Returns where a pull is sent to."""
    connection = await broker.client.connection(broker.broker.address)
    answer = await connection.ask(pulling("orders", 0, queue_offset, **fields))
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED, answer
    return int(fastjson.decode(bytes(answer.ext_fields), dict[str, str])["nextBeginOffset"])


async def test_a_group_that_is_offline_is_set_and_the_next_pull_is_told(broker: BrokerFixture) -> None:
    await send_three(broker)
    broker.broker.offsets.commit("group", "orders", 0, 3)

    reply = await broker.call(resetting(0))

    assert offsets_in(reply.body) == {0: 0, 1: 0, 2: 0, 3: 0}
    asked = QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0)
    assert (await broker.call(asked)).fields.offset == 0
    assert await next_offset(broker, 3) == 0
    assert (await broker.pull("orders", 0)).fields.next_begin_offset == 3


async def test_a_pull_that_waits_is_told_at_once(broker: BrokerFixture) -> None:
    await send_three(broker)
    waiting = asyncio.create_task(next_offset(broker, 3, sys_flag=SUSPEND, suspend_timeout_millis=60_000))
    await broker.until_waiting("orders")

    await broker.call(resetting(0))

    assert await waiting == 0


async def test_until_it_was_told_what_a_group_commits_does_not_count(broker: BrokerFixture) -> None:
    await send_three(broker)
    await broker.call(resetting(0))

    commit = UpdateConsumerOffset(consumer_group="group", topic="orders", queue_id=0, commit_offset=3)
    assert (await broker.call(commit)).remark == "Offset has been previously reset"
    assert await next_offset(broker, 3, sys_flag=0x1 | 0x4, commit_offset=3) == 0
    assert broker.broker.offsets.get("group", "orders", 0) == 0

    assert (await broker.call(commit)).remark is None
    assert broker.broker.offsets.get("group", "orders", 0) == 3


async def test_a_group_can_be_set_to_the_end_or_to_an_offset_of_one_queue(broker: BrokerFixture) -> None:
    await send_three(broker)

    assert offsets_in((await broker.call(resetting(-1))).body)[0] == 3
    assert offsets_in((await broker.call(resetting(-1, queue_id=0, offset=2))).body) == {0: 2}
    assert await next_offset(broker, 0) == 2
    with pytest.raises(SystemFailure, match="not in consume queue range"):
        await broker.call(resetting(-1, queue_id=0, offset=9))
    with pytest.raises(InvalidParameter):
        await broker.call(resetting(-1, queue_id=4))


async def test_who_is_unknown_is_not_set(broker: BrokerFixture) -> None:
    await send_three(broker)

    with pytest.raises(TopicNotFound):
        await broker.call(resetting(topic="nothing"))
    with pytest.raises(GroupNotFound):
        await broker.call(resetting(group="nobody"))


async def test_as_in_4_the_clients_are_told_and_never_sent_forward_unless_forced(tmp_path: Path) -> None:
    async with running(tmp_path, useServerSideResetOffset="false") as broker:
        await send_three(broker)
        with pytest.raises(SystemFailure, match="THe consumer group <group> not exist"):
            await broker.call(resetting(0))
        for queue_id in range(4):
            broker.broker.offsets.commit("group", "orders", queue_id, 1 if queue_id == 0 else 0)
        with pytest.raises(ConsumerNotOnline):
            await broker.call(resetting(0))

        async with consuming(broker.broker) as (consumer, _):
            reply = await broker.call(resetting(-1, is_force=False))
            header, body = await consumer.told()

            assert isinstance(header, ResetConsumerClientOffset)
            assert (header.topic, header.group, header.timestamp) == ("orders", "group", -1)
            assert offsets_in(body) == offsets_in(reply.body) == {0: 1, 1: 0, 2: 0, 3: 0}

            await broker.call(resetting(-1))
            _, body = await consumer.told()
            assert offsets_in(body)[0] == 3


async def test_who_broadcasts_is_told_in_every_client(broker: BrokerFixture) -> None:
    await send_three(broker)
    async with consuming(broker.broker, "c1") as (one, _), consuming(broker.broker, "c2") as (two, _):
        broker.broker.clients.consumers["group"].message_model = "BROADCASTING"

        await broker.call(resetting(0))

        for consumer in (one, two):
            _, body = await consumer.told()
            assert offsets_in(body)[0] == 0
        assert not broker.broker.offsets.resets


def test_what_a_cpp_tool_asks_for_has_the_form_that_cpp_clients_read() -> None:
    processor = control.ControlProcessor.__new__(control.ControlProcessor)
    processor._config = type("Config", (), {"broker_name": "b"})()  # type: ignore[assignment]

    body = processor._body("orders", {1: 7}, is_c=True)

    assert body == b'{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"orders"}]}'
    assert ResetOffsetBodyForC.decode(body).offset_table == [
        QueueOffset(broker_name="b", offset=7, queue_id=1, topic="orders")
    ]
    assert [control.is_cpp(language) for language in ("CPP", 1, "JAVA", 0, None)] == [True, True, False, False, False]


async def test_what_a_client_answers_is_passed_on_as_it_is(broker: BrokerFixture) -> None:
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = Reply(None, b'{ "jstack" : "odd \xff bytes" }')
        asked = GetConsumerRunningInfo(consumer_group="group", client_id="c", jstack_enable=True)
        assert (await broker.call(asked)).body == b'{ "jstack" : "odd \xff bytes" }'
        assert await consumer.told() == (asked, b"")

        consumer.answer = Reply(None, b"why", 777, "not now")
        connection = await broker.client.connection(broker.broker.address)
        answer = await connection.ask(asked)

    assert (answer.code, answer.remark, answer.body) == (777, "not now", b"why")


async def test_a_client_is_handed_a_message_to_consume(broker: BrokerFixture) -> None:
    sent = await broker.send("orders", b"one")
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = Reply(None, b'{"consumeResult":"CR_SUCCESS"}')
        asked = ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id=sent.msg_id, topic="orders")
        assert (await broker.call(asked)).body == b'{"consumeResult":"CR_SUCCESS"}'
        header, body = await consumer.told()

        with pytest.raises(InvalidParameter):
            await broker.call(ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id="nothing"))
        gone = "7F00000100002A9F00000000000F4240"
        with pytest.raises(SystemFailure, match="no message is stored"):
            await broker.call(ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id=gone))

    assert isinstance(header, ConsumeMessageDirectly)
    assert (header.broker_name, header.topic_sys_flag, header.group_sys_flag) == ("broker-a", 0, 0)
    assert [message.body for message in decode_all(body)] == [b"one"]


async def test_messages_that_a_client_is_slow_to_consume_have_a_bound(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_RELAYED_SIZE_MAX", 150_000)
    sent = await broker.send("orders", bytes(100_000))
    asked = ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id=sent.msg_id, topic="orders")
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = None
        first = asyncio.create_task(broker.call(asked, seconds=60))
        await consumer.told()

        with pytest.raises(SystemBusy, match="at most 150000 allowed"):
            await broker.call(asked)

    with pytest.raises(SystemFailure):
        await first
    async with consuming(broker.broker) as (consumer, _):
        assert (await broker.call(asked)).body == b""


async def test_answers_of_clients_are_kept_for_who_reads_them_up_to_a_bound(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 2 * 1024 * 1024
    monkeypatch.setattr(control, "_RELAYED_SIZE_MAX", 2 * size)
    lane = broker.broker.routes._lanes["default"]
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = Reply(None, bytes(size))
        asked = GetConsumerRunningInfo(consumer_group="group", client_id="c")
        async with greedy(broker, [asked] * 20) as peer:
            await until(lambda: unsent_size(broker) and not lane.under_way)

            assert unsent_size(broker) < 2 * size
            assert lane.parked <= 2
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            codes = {answer.code for answer in await peer.answers(20)}

    assert codes == {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}


async def test_a_client_that_is_not_there_or_too_old_or_silent_is_said_to_be(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = GetConsumerRunningInfo(consumer_group="group", client_id="c")
    with pytest.raises(SystemFailure, match="The Consumer <group> <c> not online"):
        await broker.call(asked)

    monkeypatch.setattr(control, "_RELAY_SECONDS", 0.01)
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = None
        with pytest.raises(ConsumeTimeout):
            await broker.call(asked)
        (channel,) = broker.broker.clients.consumers["group"].channels.values()
        channel.version = 61
        with pytest.raises(SystemFailure, match="too low"):
            await broker.call(asked)


async def test_each_client_says_where_it_stands(broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_STATUS_SECONDS", 0.2)
    queue = b'{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
    asked = GetConsumerStatus(topic="orders", group="group")
    with pytest.raises(AnswerError, match="No Any Consumer online"):
        await broker.call(asked)
    async with consuming(broker.broker, "c1") as (one, _), consuming(broker.broker, "c2") as (two, _):
        one.answer = Reply(None, b'{"messageQueueTable":{' + queue + b":7}}")
        two.answer = None

        reply = await broker.call(asked)

        assert reply.body == b'{"consumerTable":{"c1":{' + queue + b":7}}}"
        assert list(ConsumerStatusTable.decode(reply.body).consumer_table) == ["c1"]
        one.answer = Reply(None, b"no sense")
        only = GetConsumerStatus(topic="orders", group="group", client_addr="c1")
        assert (await broker.call(only)).body == b'{"consumerTable":{}}'
