"""Allocation of queues to members."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.client.consumer.group.allocation import (
    AVERAGELY,
    BY_CIRCLE,
    Strategy,
    by_config,
    by_consistent_hash,
    by_machine_room,
    by_machine_room_nearby,
    md5_hash,
)
from kerolox.wire.bodies.queues import MessageQueue


def queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue(broker, number, "orders") for number in range(count)]


def ids(strategy: Strategy, count: int, members: list[str]) -> list[list[int]]:
    return [[queue.queue_id for queue in strategy.allocate(queues(count), members, member)] for member in members]


def test_averagely_gives_consecutive_queues() -> None:
    assert ids(AVERAGELY, 8, ["a", "b", "c"]) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_the_last_members_get_no_queue_if_there_are_too_few() -> None:
    assert ids(AVERAGELY, 2, ["a", "b", "c"]) == [[0], [1], []]


def test_by_circle_gives_queues_in_turn() -> None:
    assert ids(BY_CIRCLE, 8, ["a", "b", "c"]) == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.parametrize("strategy", [AVERAGELY, BY_CIRCLE, by_consistent_hash()], ids=lambda strategy: strategy.name)
@given(count=st.integers(1, 40), members=st.sets(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=9))
def test_every_queue_has_one_owner(strategy: Strategy, count: int, members: set[str]) -> None:
    owned = Counter(queue for member in members for queue in strategy.allocate(queues(count), members, member))

    assert owned == Counter(queues(count))


@given(order=st.permutations(range(8)), members=st.permutations(["a", "b", "c"]))
def test_the_order_of_queues_and_members_does_not_matter(order: list[int], members: list[str]) -> None:
    shuffled = [queues(8)[number] for number in order]

    assert AVERAGELY.allocate(shuffled, members, "b") == queues(8)[3:6]


def test_a_client_that_is_not_a_member_gets_no_queue() -> None:
    assert AVERAGELY.allocate(queues(4), ["a", "b"], "new") == []


def test_by_config_ignores_the_other_members() -> None:
    assert by_config(queues(2)).allocate(queues(8), ["a", "b"], "b") == queues(2)


def test_by_machine_room_gives_consecutive_queues_and_then_the_remainder() -> None:
    near, far, elsewhere = queues(5, "north@a"), queues(5, "south@a"), queues(5, "north")
    strategy = by_machine_room(["north"])

    shares = [strategy.allocate(near + far + elsewhere, ["a", "b"], member) for member in ("a", "b")]

    assert shares == [[near[0], near[1], near[4]], [near[2], near[3]]]


NEARBY = by_machine_room_nearby(
    AVERAGELY,
    room_of_queue=lambda queue: queue.broker_name.partition("-")[0],
    room_of_member=lambda member: member.partition("-")[0],
)


def test_queues_of_rooms_without_members_are_shared_by_all() -> None:
    north, south, west = queues(4, "north-a"), queues(2, "south-a"), queues(3, "west-a")
    members = ["north-1", "north-2", "south-1"]

    shares = [NEARBY.allocate(north + south + west, members, member) for member in members]

    assert shares == [[*north[:2], west[0]], [*north[2:], west[1]], [*south, west[2]]]
    assert NEARBY.name == "MACHINE_ROOM_NEARBY-AVG"


def test_a_queue_without_a_machine_room_is_refused() -> None:
    with pytest.raises(ValueError, match="has no machine room"):
        NEARBY.allocate(queues(1, "-a"), ["north-1"], "north-1")


def test_the_hash_equals_java_s() -> None:
    # The first four bytes of `printf '...' | md5sum`.
    assert md5_hash("a-0") == 0xA165EFD1
    assert md5_hash("MessageQueue [topic=orders, brokerName=broker-a, queueId=0]") == 0x96AA27EE


def test_a_queue_goes_to_the_next_point_of_the_ring() -> None:
    places = {"a-0": 10, "b-0": 20, "c-0": 30}

    def hashed(text: str) -> int:
        return places.get(text) or {0: 10, 1: 11, 2: 30, 3: 31}[int(text[-2])]

    assert ids(by_consistent_hash(1, hashed), 4, ["a", "b", "c"]) == [[0, 3], [1], [2]]


def test_a_member_that_leaves_moves_only_its_own_queues() -> None:
    strategy, members = by_consistent_hash(), [f"10.0.0.{number}@1" for number in range(5)]
    before = {queue: member for member in members for queue in strategy.allocate(queues(64), members, member)}

    left = members[1:]
    after = {queue: member for member in left for queue in strategy.allocate(queues(64), left, member)}

    assert {queue for queue in before if before[queue] != after[queue]} == {
        queue for queue in before if before[queue] == members[0]
    }


def test_a_ring_without_virtual_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        by_consistent_hash(0)
