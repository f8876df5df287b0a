"""Running info of consumers, and the problems found in it."""

from kerolox.cli.admin.consumers.running_info import analysis, format_running_info, stuck_queues
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo

NOW = 1_700_000_000_000
QUEUE = MessageQueue("broker-a", 1, "orders")


def info(topic: str = "orders", orderly: str = "false", **queue: object) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        mq_table={QUEUE: ProcessQueueInfo(**queue)},  # type: ignore[arg-type]
        properties={
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMER_START_TIMESTAMP": "0",
            "PROP_CONSUMEORDERLY": orderly,
        },
        status_table={"orders": ConsumeStatus(pull_tps=1.5, consume_failed_msgs=2)},
        subscription_set=[SubscriptionData(topic=topic, sub_string="*")],
    )


def test_running_info_is_formatted_as_in_java() -> None:
    text = format_running_info(info(commit_offset=7))

    assert "001 Topic: orders                                   ClassFilter: false    SubExpression: *\n" in text
    assert f"{'orders':<32}  {'broker-a':<32}  1     7                   \n" in text
    assert "ProcessQueueInfo [commitOffset=7, cachedMsgMinOffset=0, " in text
    assert text.splitlines()[-1].split() == ["orders", "0.00", "1.50", "0.00", "0.00", "0.00", "2"]


def test_consumers_with_equal_subscriptions_are_fine() -> None:
    text = analysis({"a": info(), "b": info()}, NOW)

    assert text == "\n\nSame subscription in the same group of consumer\n\nRebalance OK\n"
    assert analysis({}, NOW) == ""


def test_different_subscriptions_are_reported() -> None:
    text = analysis({"a": info(), "b": info("other")}, NOW)

    assert text == "\n\nWARN: Different subscription in the same group of consumer!!!"


def test_a_queue_that_is_not_consumed_is_reported() -> None:
    stuck = info(cached_msg_count=3, last_consume_timestamp=NOW - 61_000)

    assert stuck_queues("a", stuck, NOW) == (
        "a MessageQueue [topic=orders, brokerName=broker-a, queueId=1] can't consume for a while, maybe blocked, "
        "61000ms\n"
    )
    assert stuck_queues("a", info(cached_msg_count=3, last_consume_timestamp=NOW - 1000), NOW) == ""


def test_a_queue_that_cannot_be_locked_or_unlocked_is_reported() -> None:
    unlocked = info(orderly="true", last_lock_timestamp=NOW - 5000)
    kept = info(orderly="true", locked=True, is_dropped=True, try_unlock_times=3)

    assert stuck_queues("a", unlocked, NOW).endswith("can't lock for a while, 5000ms\n")
    assert stuck_queues("a", kept, NOW).endswith("unlock 3 times, still failed\n")
