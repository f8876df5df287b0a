import pytest

from kerolox.client.producer.queue_selection import TopicQueues, by_hash, fixed_queue
from kerolox.client.session.topic_routes import TopicRoute
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.session.test_topic_routes import route_data

QUEUES = tuple(MessageQueue("a", number, "t") for number in range(8))


def queues_of(*brokers: str) -> TopicQueues:
    return TopicQueues("t", TopicRoute("ns%t", route_data(*brokers)))


def test_next_goes_round_robin() -> None:
    queues = queues_of("a", "b")

    assert {queues.next() for _ in range(4)} == set(queues.queues)
    assert {queue.topic for queue in queues.queues} == {"t"}


def test_the_last_broker_is_skipped() -> None:
    queues = queues_of("a", "b")

    assert {queues.next_available(lambda broker: True, "a").broker_name for _ in range(8)} == {"b"}


def test_unavailable_brokers_are_skipped_if_one_is_available() -> None:
    queues = queues_of("a", "b", "c")

    assert {queues.next_available(lambda broker: broker == "c", "a").broker_name for _ in range(8)} == {"c"}


def test_among_unavailable_brokers_another_than_the_last_is_used() -> None:
    queues = queues_of("a", "b")

    assert {queues.next_available(lambda broker: False, "a").broker_name for _ in range(8)} == {"b"}


def test_the_only_broker_is_used_even_if_it_failed() -> None:
    assert queues_of("a").next_available(lambda broker: False, "a").broker_name == "a"


@pytest.mark.parametrize(
    ("value", "queue_id"),
    # "TagA".hashCode() is 2598919, and that of this word Integer.MIN_VALUE.
    [("TagA", 2598919 % 8), ("polygenelubricants", 0), (17, 1), (-5, 5), (1 << 32, 1), (-1 << 40, 1 << 8 & 7)],
)
def test_hashes_equal_java_s(value: str | int, queue_id: int) -> None:
    assert by_hash(value)(QUEUES).queue_id == queue_id


def test_fixed_queue_returns_the_given_queue() -> None:
    assert fixed_queue(QUEUES[3])(()) is QUEUES[3]
