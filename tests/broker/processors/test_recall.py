"""Recall of timed messages, over a real socket."""

import time
from pathlib import Path

import pytest

from kerolox.broker.errors import IllegalOperation
from kerolox.codes import ResponseCode
from kerolox.errors import NoPermission, TopicNotFound
from kerolox.message.ids import decode_handle
from kerolox.remoting.client import Client
from kerolox.wire.headers.messages import Recalled, RecallMessage
from tests.broker.brokers import BrokerFixture, running

TIMER = "rmq_sys_wheel_timer"


def in_an_hour() -> str:
    return str(time.time_ns() // 1_000_000 + 3_600_000)


async def test_the_response_to_a_timed_message_has_a_recall_handle(tmp_path: Path) -> None:
    async with running(tmp_path, recallMessageEnable="true") as broker:
        first = await broker.send("orders", b"body", 1, TIMER_DELIVER_MS=in_an_hour(), UNIQ_KEY="u1")
        sent = await broker.send("orders", b"body", 2, TIMER_DELIVER_MS=in_an_hour(), UNIQ_KEY="u2")

        assert first.recall_handle is not None
        assert sent.recall_handle is not None
        # The requested queue, and the offset in the queue of the timer.
        assert (sent.queue_id, sent.queue_offset) == (2, 1)
        handle = decode_handle(sent.recall_handle)
        assert (handle.topic, handle.broker_name, handle.unique_id) == ("orders", "broker-a", "u2")
        recalled = await broker.call(
            RecallMessage(topic="orders", recall_handle=sent.recall_handle, producer_group="p")
        )
        assert (recalled.fields.msg_id, recalled.fields.msg_region) == ("u2", "DefaultRegion")
        *_, mark = await broker.messages(TIMER)
        assert (mark.get("TIMER_DEL_UNIQKEY"), mark.get("REAL_TOPIC"), mark.get("PGROUP")) == (
            *("orders+u2", "orders", "p"),
        )
        assert broker.counted("TOPIC_PUT_NUMS", TIMER) >= 1


async def test_other_messages_cannot_be_recalled(broker: BrokerFixture) -> None:
    plain = await broker.send("orders", b"body")
    delayed = await broker.send("orders", b"body", DELAY="3")

    assert (plain.recall_handle, delayed.recall_handle) == (None, None)
    assert (delayed.queue_id, delayed.queue_offset) == (0, 0)
    assert len(await broker.messages("SCHEDULE_TOPIC_XXXX", 2)) == 1


async def test_recalls_are_disabled_by_default(broker: BrokerFixture) -> None:
    with pytest.raises(NoPermission):
        await broker.call(RecallMessage(topic="orders", recall_handle="x"))


async def test_a_refused_recall_names_the_region_too(broker: BrokerFixture) -> None:
    async with Client() as client:
        connection = await client.connection(broker.broker.address)
        answer = await connection.ask(RecallMessage(topic="orders", recall_handle="x"))

    assert (answer.code, Recalled.decode(answer.ext).msg_region) == (ResponseCode.NO_PERMISSION, "DefaultRegion")


async def test_invalid_recalls_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, recallMessageEnable="true") as broker:
        sent = await broker.send("orders", b"body", TIMER_DELIVER_MS=in_an_hour())
        await broker.send("others", b"body")
        assert sent.recall_handle is not None

        with pytest.raises(TopicNotFound):
            await broker.call(RecallMessage(topic="unknown", recall_handle=sent.recall_handle))
        with pytest.raises(IllegalOperation, match="topic not match"):
            await broker.call(RecallMessage(topic="others", recall_handle=sent.recall_handle))
        with pytest.raises(IllegalOperation, match="recall handle is invalid"):
            await broker.call(RecallMessage(topic="orders", recall_handle="no handle"))
