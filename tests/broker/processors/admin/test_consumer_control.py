"""Offset resets, and requests relayed to consumers."""

import asyncio
from pathlib import Path

import pytest

from kerolox.broker.errors import ConsumerNotOnline, ConsumeTimeout, GroupNotFound, InvalidParameter
from kerolox.broker.processors.admin import consumer_control
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, SystemBusy, SystemFailure, TopicNotFound
from kerolox.message.records.record import decode_all
from kerolox.runtime.text import fastjson
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
    defaults = {"topic": "orders", "group": "group", "timestamp": timestamp, "is_force": True}
    return ResetOffset(**(defaults | fields))  # type: ignore[arg-type]


async def send_three(broker: BrokerFixture) -> None:
    for number in range(3):
        await broker.send("orders", b"%d" % number)
    broker.broker.groups.find("group")


async def next_offset(broker: BrokerFixture, queue_offset: int, **fields: object) -> int:
    """Return the offset to which a pull is redirected."""
    connection = await broker.client.connection(broker.broker.address)
    answer = await connection.ask(pulling("orders", 0, queue_offset, **fields))
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED, answer
    return int(fastjson.decode(bytes(answer.ext_fields), dict[str, str])["nextBeginOffset"])


async def test_a_reset_of_an_offline_group_redirects_its_next_pull(broker: BrokerFixture) -> None:
    await send_three(broker)
    broker.broker.offsets.commit("group", "orders", 0, 3)

    reply = await broker.call(resetting(0))

    assert offsets_in(reply.body) == {0: 0, 1: 0, 2: 0, 3: 0}
    request = QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0)
    assert (await broker.call(request)).fields.offset == 0
    assert await next_offset(broker, 3) == 0
    assert (await broker.pull("orders", 0)).fields.next_begin_offset == 3


async def test_a_reset_redirects_a_waiting_pull_at_once(broker: BrokerFixture) -> None:
    await send_three(broker)
    waiting = asyncio.create_task(next_offset(broker, 3, sys_flag=SUSPEND, suspend_timeout_millis=60_000))
    await broker.until_waiting("orders")

    await broker.call(resetting(0))

    assert await waiting == 0


async def test_commits_are_ignored_until_the_reset_was_delivered(broker: BrokerFixture) -> None:
    await send_three(broker)
    await broker.call(resetting(0))

    commit = UpdateConsumerOffset(consumer_group="group", topic="orders", queue_id=0, commit_offset=3)
    assert (await broker.call(commit)).remark == "Offset has been previously reset"
    assert await next_offset(broker, 3, sys_flag=0x1 | 0x4, commit_offset=3) == 0
    assert broker.broker.offsets.get("group", "orders", 0) == 0

    assert (await broker.call(commit)).remark is None
    assert broker.broker.offsets.get("group", "orders", 0) == 3


async def test_a_group_can_be_reset_to_the_end_or_to_an_offset_of_one_queue(broker: BrokerFixture) -> None:
    await send_three(broker)

    assert offsets_in((await broker.call(resetting(-1))).body)[0] == 3
    assert offsets_in((await broker.call(resetting(-1, queue_id=0, offset=2))).body) == {0: 2}
    assert await next_offset(broker, 0) == 2
    with pytest.raises(SystemFailure, match="not in consume queue range"):
        await broker.call(resetting(-1, queue_id=0, offset=9))
    with pytest.raises(InvalidParameter):
        await broker.call(resetting(-1, queue_id=4))


async def test_a_reset_of_unknown_topics_and_groups_is_refused(broker: BrokerFixture) -> None:
    await send_three(broker)

    with pytest.raises(TopicNotFound):
        await broker.call(resetting(topic="nothing"))
    with pytest.raises(GroupNotFound):
        await broker.call(resetting(group="nobody"))


async def test_with_client_side_reset_offsets_move_forward_only_if_forced(tmp_path: Path) -> None:
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
            header, body = await consumer.next_request()

            assert isinstance(header, ResetConsumerClientOffset)
            assert (header.topic, header.group, header.timestamp) == ("orders", "group", -1)
            assert offsets_in(body) == offsets_in(reply.body) == {0: 1, 1: 0, 2: 0, 3: 0}

            await broker.call(resetting(-1))
            _, body = await consumer.next_request()
            assert offsets_in(body)[0] == 3


async def test_a_reset_of_a_broadcasting_group_is_sent_to_every_client(broker: BrokerFixture) -> None:
    await send_three(broker)
    async with consuming(broker.broker, "c1") as (one, _), consuming(broker.broker, "c2") as (two, _):
        broker.broker.clients.consumers["group"].message_model = "BROADCASTING"

        await broker.call(resetting(0))

        for consumer in (one, two):
            _, body = await consumer.next_request()
            assert offsets_in(body)[0] == 0
        assert not broker.broker.offsets.resets


def test_a_reset_by_a_cpp_tool_has_the_format_of_cpp_clients() -> None:
    processor = consumer_control.ConsumerControlProcessor.__new__(consumer_control.ConsumerControlProcessor)
    processor._config = type("Config", (), {"broker_name": "b"})()

    body = processor._body("orders", {1: 7}, is_c=True)

    assert body == b'{"offsetTable":[{"brokerName":"b","offset":7,"queueId":1,"topic":"orders"}]}'
    assert ResetOffsetBodyForC.decode(body).offset_table == [
        QueueOffset(broker_name="b", offset=7, queue_id=1, topic="orders")
    ]
    assert [consumer_control.is_cpp(language) for language in ("CPP", 1, "JAVA", 0, None)] == [
        True,
        True,
        False,
        False,
        False,
    ]


async def test_the_response_of_a_client_is_returned_unchanged(broker: BrokerFixture) -> None:
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = Reply(None, b'{ "jstack" : "odd \xff bytes" }')
        request = GetConsumerRunningInfo(consumer_group="group", client_id="c", jstack_enable=True)
        assert (await broker.call(request)).body == b'{ "jstack" : "odd \xff bytes" }'
        assert await consumer.next_request() == (request, b"")

        consumer.answer = Reply(None, b"why", 777, "not now")
        connection = await broker.client.connection(broker.broker.address)
        answer = await connection.ask(request)

    assert (answer.code, answer.remark, answer.body) == (777, "not now", b"why")


async def test_a_message_is_passed_to_a_client_to_consume_directly(broker: BrokerFixture) -> None:
    sent = await broker.send("orders", b"one")
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = Reply(None, b'{"consumeResult":"CR_SUCCESS"}')
        request = ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id=sent.msg_id, topic="orders")
        assert (await broker.call(request)).body == b'{"consumeResult":"CR_SUCCESS"}'
        header, body = await consumer.next_request()

        with pytest.raises(InvalidParameter):
            await broker.call(ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id="nothing"))
        gone = "7F00000100002A9F00000000000F4240"
        with pytest.raises(SystemFailure, match="no message is stored"):
            await broker.call(ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id=gone))

    assert isinstance(header, ConsumeMessageDirectly)
    assert (header.broker_name, header.topic_sys_flag, header.group_sys_flag) == ("broker-a", 0, 0)
    assert [message.body for message in decode_all(body)] == [b"one"]


async def test_the_bytes_of_relayed_messages_are_limited(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_control, "_RELAYED_SIZE_MAX", 150_000)
    sent = await broker.send("orders", bytes(100_000))
    request = ConsumeMessageDirectly(consumer_group="group", client_id="c", msg_id=sent.msg_id, topic="orders")
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = None
        first = asyncio.create_task(broker.call(request, seconds=60))
        await consumer.next_request()

        with pytest.raises(SystemBusy, match="the limit is 150000"):
            await broker.call(request)

    with pytest.raises(SystemFailure):
        await first
    async with consuming(broker.broker) as (consumer, _):
        assert (await broker.call(request)).body == b""


async def test_the_bytes_of_relayed_responses_are_limited(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 2 * 1024 * 1024
    monkeypatch.setattr(consumer_control, "_RELAYED_SIZE_MAX", 2 * size)
    request_queue = broker.broker.parts.request_queues["default"]
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = Reply(None, bytes(size))
        request = GetConsumerRunningInfo(consumer_group="group", client_id="c")
        async with greedy(broker, [request] * 20) as peer:
            await until(lambda: unsent_size(broker) and not request_queue.under_way)

            assert unsent_size(broker) < 2 * size
            assert request_queue.parked <= 2
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            codes = {answer.code for answer in await peer.answers(20)}

    assert codes == {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}


async def test_relays_to_absent_old_or_silent_clients_fail(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = GetConsumerRunningInfo(consumer_group="group", client_id="c")
    with pytest.raises(SystemFailure, match="The Consumer <group> <c> not online"):
        await broker.call(request)

    monkeypatch.setattr(consumer_control, "_RELAY_SECONDS", 0.01)
    async with consuming(broker.broker) as (consumer, _):
        consumer.answer = None
        with pytest.raises(ConsumeTimeout):
            await broker.call(request)
        (channel,) = broker.broker.clients.consumers["group"].channels.values()
        channel.version = 61
        with pytest.raises(SystemFailure, match="too low"):
            await broker.call(request)


async def test_consumer_status_has_the_offsets_of_each_client(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_control, "_STATUS_SECONDS", 0.2)
    queue = b'{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
    request = GetConsumerStatus(topic="orders", group="group")
    with pytest.raises(AnswerError, match="No Any Consumer online"):
        await broker.call(request)
    async with consuming(broker.broker, "c1") as (one, _), consuming(broker.broker, "c2") as (two, _):
        one.answer = Reply(None, b'{"messageQueueTable":{' + queue + b":7}}")
        two.answer = None

        reply = await broker.call(request)

        assert reply.body == b'{"consumerTable":{"c1":{' + queue + b":7}}}"
        assert list(ConsumerStatusTable.decode(reply.body).consumer_table) == ["c1"]
        one.answer = Reply(None, b"no sense")
        only = GetConsumerStatus(topic="orders", group="group", client_addr="c1")
        assert (await broker.call(only)).body == b'{"consumerTable":{}}'
