"""Messages that consumers send back, over a real socket."""

from pathlib import Path

import pytest

from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.errors import NoPermission, SystemFailure
from kerolox.message.message import Message
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.headers.messages import ConsumerSendMsgBack
from tests.broker.brokers import BrokerFixture, running, sending

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


async def send_back(
    broker: BrokerFixture, message: Message, delay_level: int = 0, times: int | None = None, group: str = "group"
) -> None:
    await broker.call(
        ConsumerSendMsgBack(
            offset=message.physical_offset,
            group=group,
            delay_level=delay_level,
            max_reconsume_times=times,
            origin_topic="first",
        )
    )


async def sent(broker: BrokerFixture, reconsume_times: int = 0, **names: str) -> Message:
    request = sending("orders", **names)
    request.reconsume_times = reconsume_times
    await broker.call(request, b"body")
    return (await broker.messages("orders"))[-1]


async def test_a_message_sent_back_is_delayed_and_keeps_its_origin(broker: BrokerFixture) -> None:
    message = await sent(broker, KEYS="k", UNIQ_KEY="u1")

    await send_back(broker, message)

    (waiting,) = await broker.messages(SCHEDULE, 2)
    assert (waiting.body, waiting.reconsume_times) == (b"body", 1)
    assert (waiting.born_timestamp, waiting.born_host) == (message.born_timestamp, message.born_host)
    assert waiting.parsed == {
        "KEYS": "k",
        "UNIQ_KEY": "u1",
        "CLUSTER": "DefaultCluster",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": message.offset_id,
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%group",
        "REAL_QID": "0",
    }
    assert broker.broker.topics.find("%RETRY%group").write_queue_nums == 1
    assert broker.counted("SNDBCK_PUT_NUMS", "orders@group") == 1
    assert broker.counted("DLQ_PUT_NUMS", "orders@group") == 0


async def test_a_message_sent_back_twice_keeps_its_first_origin(broker: BrokerFixture) -> None:
    message = await sent(broker, 4, RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="7F00")

    await send_back(broker, message)

    (waiting,) = await broker.messages(SCHEDULE, 6)
    assert (waiting.get("RETRY_TOPIC"), waiting.get("ORIGIN_MESSAGE_ID")) == ("first", "7F00")
    assert (waiting.get("DELAY"), waiting.reconsume_times) == ("7", 5)


async def test_counters_of_long_topic_names_are_truncated(broker: BrokerFixture) -> None:
    message = await sent(broker, RETRY_TOPIC="r" * 20_000)
    request = ConsumerSendMsgBack(
        offset=message.physical_offset, group="group", delay_level=-1, origin_topic="o" * 20_000
    )

    with pytest.raises(InvalidParameter, match="origin topic of 20000 characters, at most 255 allowed"):
        await broker.call(request)
    await send_back(broker, message, -1)

    assert broker.counted("SNDBCK_PUT_NUMS", "r" * 20_000 + "@group") == 0
    assert broker.counted("SNDBCK_PUT_NUMS", "r" * 255 + "@group") == 1
    assert broker.counted("DLQ_PUT_NUMS", "r" * 255 + "@group") == 1


async def test_a_consumer_can_choose_the_delay_level(broker: BrokerFixture) -> None:
    await send_back(broker, await sent(broker), 1)

    assert len(await broker.messages(SCHEDULE, 0)) == 1


@pytest.mark.parametrize(("reconsume_times", "delay_level", "times"), [(16, 0, None), (3, 0, 3), (0, -1, None)])
async def test_a_message_retried_too_often_becomes_a_dead_letter(
    broker: BrokerFixture, reconsume_times: int, delay_level: int, times: int | None
) -> None:
    message = await sent(broker, reconsume_times)

    await send_back(broker, message, delay_level, times)

    (dead,) = await broker.messages("%DLQ%group")
    assert (dead.body, dead.reconsume_times) == (b"body", reconsume_times + 1)
    assert (dead.get("RETRY_TOPIC"), dead.get("DELAY")) == ("orders", "0")
    assert broker.counted("SNDBCK_PUT_NUMS", "orders@group") == 1
    assert broker.counted("DLQ_PUT_NUMS", "orders@group") == 1
    # The key of Java: owner, topic named by the consumer, group, action.
    assert broker.counted("SNDBCK2DLQ_TIMES", "null@first@group@SEND_BACK_TO_DLQ") == 1


async def test_a_message_sent_back_by_a_group_without_retries_is_dropped(broker: BrokerFixture) -> None:
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="group", retry_queue_nums=0))
    message = await sent(broker)
    end = broker.broker.store.log.end_offset

    await send_back(broker, message)

    assert broker.broker.store.log.end_offset == end


async def test_sending_back_an_unknown_message_is_refused(broker: BrokerFixture) -> None:
    with pytest.raises(SystemFailure, match="look message by offset failed, 12345"):
        await send_back(broker, Message("orders", b"", physical_offset=12345))
    with pytest.raises(SystemFailure):
        await send_back(broker, Message("orders", b"", physical_offset=-1))


async def test_sending_back_by_an_unknown_group_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateSubscriptionGroup="false") as broker:
        with pytest.raises(GroupNotFound, match="subscription group not exist, group"):
            await send_back(broker, await sent(broker))


async def test_sending_back_needs_write_permission(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        message = await sent(broker)
        broker.broker.settings.broker.broker_permission = 4
        with pytest.raises(NoPermission):
            await send_back(broker, message)


async def test_sending_back_fails_if_the_store_refuses_the_message(broker: BrokerFixture) -> None:
    """On this code consumers send the message to the retry topic themselves."""
    message = await sent(broker)
    broker.broker.store.retention.refusal = "the disk is full"

    with pytest.raises(SystemFailure):
        await send_back(broker, message)
