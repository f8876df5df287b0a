"""Messages given back, over a real socket."""

from pathlib import Path

import pytest

from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.errors import NoPermission, SystemFailure
from kerolox.message.message import Message
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.headers.messages import ConsumerSendMsgBack
from tests.broker.brokers import BrokerFixture, running, sending

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


async def give_back(
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


async def test_a_message_given_back_waits_and_remembers_where_it_was(broker: BrokerFixture) -> None:
    message = await sent(broker, KEYS="k", UNIQ_KEY="u1")

    await give_back(broker, message)

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


async def test_a_message_that_was_given_back_before_keeps_its_origin(broker: BrokerFixture) -> None:
    message = await sent(broker, 4, RETRY_TOPIC="first", ORIGIN_MESSAGE_ID="7F00")

    await give_back(broker, message)

    (waiting,) = await broker.messages(SCHEDULE, 6)
    assert (waiting.get("RETRY_TOPIC"), waiting.get("ORIGIN_MESSAGE_ID")) == ("first", "7F00")
    assert (waiting.get("DELAY"), waiting.reconsume_times) == ("7", 5)


async def test_nothing_is_counted_under_a_name_of_any_length(broker: BrokerFixture) -> None:
    message = await sent(broker, RETRY_TOPIC="r" * 20_000)
    request = ConsumerSendMsgBack(
        offset=message.physical_offset, group="group", delay_level=-1, origin_topic="o" * 20_000
    )

    with pytest.raises(InvalidParameter, match="origin topic of 20000 characters, at most 255 allowed"):
        await broker.call(request)
    await give_back(broker, message, -1)

    assert broker.counted("SNDBCK_PUT_NUMS", "r" * 20_000 + "@group") == 0
    assert broker.counted("SNDBCK_PUT_NUMS", "r" * 255 + "@group") == 1
    assert broker.counted("DLQ_PUT_NUMS", "r" * 255 + "@group") == 1


async def test_a_consumer_may_choose_the_delay(broker: BrokerFixture) -> None:
    await give_back(broker, await sent(broker), 1)

    assert len(await broker.messages(SCHEDULE, 0)) == 1


@pytest.mark.parametrize(("reconsume_times", "delay_level", "times"), [(16, 0, None), (3, 0, 3), (0, -1, None)])
async def test_what_was_tried_often_enough_is_a_dead_letter(
    broker: BrokerFixture, reconsume_times: int, delay_level: int, times: int | None
) -> None:
    message = await sent(broker, reconsume_times)

    await give_back(broker, message, delay_level, times)

    (dead,) = await broker.messages("%DLQ%group")
    assert (dead.body, dead.reconsume_times) == (b"body", reconsume_times + 1)
    assert (dead.get("RETRY_TOPIC"), dead.get("DELAY")) == ("orders", "0")
    assert broker.counted("SNDBCK_PUT_NUMS", "orders@group") == 1
    assert broker.counted("DLQ_PUT_NUMS", "orders@group") == 1
    # Under the key of the original: whose it is, the topic that the consumer said, the group, and what was done.
    assert broker.counted("SNDBCK2DLQ_TIMES", "null@first@group@SEND_BACK_TO_DLQ") == 1


async def test_a_group_without_retries_loses_what_it_gives_back(broker: BrokerFixture) -> None:
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="group", retry_queue_nums=0))
    message = await sent(broker)
    end = broker.broker.store.log.end_offset

    await give_back(broker, message)

    assert broker.broker.store.log.end_offset == end


async def test_what_is_not_there_cannot_be_given_back(broker: BrokerFixture) -> None:
    with pytest.raises(SystemFailure, match="look message by offset failed, 12345"):
        await give_back(broker, Message("orders", b"", physical_offset=12345))
    with pytest.raises(SystemFailure):
        await give_back(broker, Message("orders", b"", physical_offset=-1))


async def test_an_unknown_group_cannot_give_back(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateSubscriptionGroup="false") as broker:
        with pytest.raises(GroupNotFound, match="subscription group not exist, group"):
            await give_back(broker, await sent(broker))


async def test_a_broker_that_may_not_be_written_takes_nothing_back(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        message = await sent(broker)
        broker.broker.settings.broker.broker_permission = 4
        with pytest.raises(NoPermission):
            await give_back(broker, message)


async def test_a_store_that_takes_nothing_is_a_failure(broker: BrokerFixture) -> None:
    """Consumers then send the message themselves, whatever the reason was."""
    message = await sent(broker)
    broker.broker.store.retention.refusal = "the disk is full"

    with pytest.raises(SystemFailure):
        await give_back(broker, message)
