"""When a message that was tried again is dead."""

from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import GroupNotFound
from kerolox.broker.send.retry_topics import RetryTopics, group_of, times_max
from kerolox.broker.tables.groups import GroupTable
from kerolox.broker.tables.queue_locks import QueueLocks
from kerolox.broker.tables.topics import TopicTable
from kerolox.message.message import Message
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.bodies.queues import MessageQueue
from tests.store.disks import SimulatedDisk

QUEUE = MessageQueue(broker_name="b", queue_id=0, topic="orders")
DIRECTORY = Path("/store/config")


class Tables:
    def __init__(self, config: BrokerConfig | None = None) -> None:
        config = config or BrokerConfig()
        disk, self.clock = SimulatedDisk(), ManualClock()
        disk.make_directory(DIRECTORY)
        self.topics = TopicTable(config, disk, DIRECTORY, self.clock)
        self.groups = GroupTable(config, disk, DIRECTORY, self.clock)
        self.locks = QueueLocks(self.clock)
        self.retries = RetryTopics(self.topics, self.groups, self.locks)


def tried(times: int) -> Message:
    return Message("%RETRY%group", b"body", b"DELAY\x015\x02KEYS\x01k\x02", 0, reconsume_times=times)


async def test_a_message_is_tried_as_often_as_its_group_says() -> None:
    tables = Tables()

    last = await tables.retries.redirected(tried(16), 400, None)
    dead = await tables.retries.redirected(tried(17), 400, None)

    assert (last.topic, last.get("DELAY")) == ("%RETRY%group", "5")
    assert (dead.topic, dead.queue_id, dead.parsed) == ("%DLQ%group", 0, {"KEYS": "k", "DELAY": "-1"})
    made = tables.topics.find("%DLQ%group")
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (1, 1, 6)


async def test_a_client_may_say_how_often() -> None:
    tables = Tables()

    assert (await tables.retries.redirected(tried(3), 121, 2)).topic == "%DLQ%group"
    assert (await tables.retries.redirected(tried(2), 121, 2)).topic == "%RETRY%group"


async def test_messages_given_up_by_an_orderly_group_are_dead_letters() -> None:
    tables = Tables()
    tables.locks.lock("group", "client", [QUEUE])

    assert (await tables.retries.redirected(tried(0), 400, None)).topic == "%DLQ%group"
    await tables.clock.advance(61)
    assert (await tables.retries.redirected(tried(0), 400, None)).topic == "%RETRY%group"


async def test_retries_of_an_unknown_group_are_refused() -> None:
    tables = Tables(BrokerConfig(auto_create_subscription_group=False))

    with pytest.raises(GroupNotFound):
        await tables.retries.redirected(tried(0), 400, None)


@pytest.mark.parametrize(("version", "wanted", "times"), [(121, 3, 3), (120, 3, 16), (400, None, 16), (400, 0, 0)])
def test_clients_before_3_4_9_cannot_say_how_often(version: int, wanted: int | None, times: int) -> None:
    assert times_max(SubscriptionGroupConfig(group_name="g"), version, wanted) == times


@pytest.mark.parametrize(
    ("topic", "group"),
    [("%RETRY%g", "g"), ("%RETRY%g_t", "g_t"), ("%RETRY%g+t", "g"), ("%RETRY%g+t+u", "g+t+u")],
)
def test_the_group_of_a_retry_topic_is_in_its_name(topic: str, group: str) -> None:
    assert group_of(topic) == group
