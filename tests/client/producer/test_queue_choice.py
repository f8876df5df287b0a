import pytest

from kerolox.client.producer.queue_choice import TopicQueues, by_hash, exactly
from kerolox.client.routes import TopicRoute
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.test_routes import route_data

QUEUES = tuple(MessageQueue("a", number, "t") for number in range(8))


def queues_of(*brokers: str) -> TopicQueues:
    return TopicQueues("t", TopicRoute("ns%t", route_data(*brokers)))


def test_all_queues_have_their_turn() -> None:
    queues = queues_of("a", "b")

    assert {queues.next() for _ in range(4)} == set(queues.queues)
    assert {queue.topic for queue in queues.queues} == {"t"}


def test_the_broker_that_failed_last_is_passed_over() -> None:
    queues = queues_of("a", "b")

    assert {queues.next_of(lambda broker: True, "a").broker_name for _ in range(8)} == {"b"}


def test_bad_brokers_are_passed_over_while_there_are_good_ones() -> None:
    queues = queues_of("a", "b", "c")

    assert {queues.next_of(lambda broker: broker == "c", "a").broker_name for _ in range(8)} == {"c"}


def test_among_bad_brokers_it_is_another_than_the_last() -> None:
    queues = queues_of("a", "b")

    assert {queues.next_of(lambda broker: False, "a").broker_name for _ in range(8)} == {"b"}


def test_the_only_broker_is_taken_whatever_it_did() -> None:
    assert queues_of("a").next_of(lambda broker: False, "a").broker_name == "a"


@pytest.mark.parametrize(
    ("value", "queue_id"),
    # "TagA".hashCode() is 2598919, and that of this word Integer.MIN_VALUE.
    [("TagA", 2598919 % 8), ("polygenelubricants", 0), (17, 1), (-5, 5), (1 << 32, 1), (-1 << 40, 1 << 8 & 7)],
)
def test_hashes_are_java_s(value: str | int, queue_id: int) -> None:
    assert by_hash(value)(QUEUES).queue_id == queue_id


def test_a_given_queue_is_that_queue() -> None:
    assert exactly(QUEUES[3])(()) is QUEUES[3]
