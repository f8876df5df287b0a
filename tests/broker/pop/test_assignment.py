"""Assignment of queues to members, and message request modes."""

from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.pop.assignment import RequestModes, allocate, averagely, by_circle
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.wire.bodies.clients import MessageRequestMode
from kerolox.wire.bodies.queues import MessageQueue
from tests.golden import pop as golden

QUEUES = [MessageQueue("b", number, "t") for number in range(8)]


def mode(name: str, shares: int = 0) -> MessageRequestMode:
    return MessageRequestMode(consumer_group="g", mode=name, pop_share_queue_num=shares, topic="t")


def numbers(queues: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in queues]


def test_each_member_gets_consecutive_queues() -> None:
    members = ["a", "b", "c"]
    rows = [numbers(averagely(QUEUES, members, member)) for member in members]
    assert rows == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [numbers(by_circle(QUEUES, members, member)) for member in members] == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.parametrize("count", range(1, 12))
def test_every_queue_has_one_owner(count: int) -> None:
    members = [f"{number:02}" for number in range(count)]
    for strategy in (averagely, by_circle):
        owned = [queue for member in members for queue in strategy(QUEUES, members, member)]
        assert sorted(owned) == QUEUES


def test_a_pulling_member_gets_its_own_queues_and_a_stranger_none() -> None:
    assert numbers(allocate(averagely, QUEUES, ["b", "a"], "b", mode("PULL"))) == [4, 5, 6, 7]
    assert allocate(averagely, QUEUES, ["b", "a"], "c", mode("PULL")) == []


def test_without_shares_a_popping_member_gets_queue_minus_one_of_each_broker() -> None:
    two = [*QUEUES, MessageQueue("other", 0, "t")]
    assert allocate(averagely, two, ["a"], "a", mode("POP")) == [
        MessageQueue("b", -1, "t"),
        MessageQueue("other", -1, "t"),
    ]


def test_with_shares_a_popping_member_also_gets_queues_of_the_next_members() -> None:
    members = ["a", "b", "c", "d"]
    assert numbers(allocate(averagely, QUEUES, members, "d", mode("POP", 1))) == [6, 7, 0, 1]
    many = [f"{number:02}" for number in range(10)]
    assert numbers(allocate(averagely, QUEUES, many, "09", mode("POP", 1))) == [1]


async def test_modes_are_saved_in_the_file_of_java(tmp_path: Path) -> None:
    config, clock = BrokerConfig(), ManualClock()
    modes = RequestModes(config, RealDisk(), tmp_path, clock)
    modes.set(MessageRequestMode(consumer_group="readers", mode="POP", pop_share_queue_num=2, topic="orders"))
    assert modes.serialized().encode().decode() == golden.load()["modes"]
    await modes.file.save()

    again = RequestModes(config, RealDisk(), tmp_path, clock)
    again.load()

    assert again.get("orders", "readers").pop_share_queue_num == 2
    assert again.get("orders", "others").mode == "PULL"


def test_the_configuration_is_the_default_mode_but_retry_topics_are_pulled(tmp_path: Path) -> None:
    config = BrokerConfig()
    config.default_message_request_mode = "POP"
    modes = RequestModes(config, RealDisk(), tmp_path, ManualClock())

    assert (modes.get("t", "g").mode, modes.get("t", "g").pop_share_queue_num) == ("POP", -1)
    assert modes.get("%RETRY%g", "g").mode == "PULL"
