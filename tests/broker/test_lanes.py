"""Every kind of request has its own bound."""

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.lanes import lanes


def test_lanes_admit_as_many_as_the_queues_of_the_original() -> None:
    assert {name: lane.capacity for name, lane in lanes(BrokerConfig()).items()} == {
        "send": 10_000,
        "pull": 100_000,
        "litePull": 100_000,
        "ack": 100_000,
        "reply": 10_000,
        "query": 20_000,
        "heartbeat": 50_000,
        "clientManager": 1_000_000,
        "consumerManager": 1_000_000,
        "endTransaction": 100_000,
        "loadBalance": 100_000,
        "default": 10_000,
    }


def test_a_bound_may_be_set_under_its_key() -> None:
    config = BrokerConfig()
    config.update({"queryThreadPoolQueueCapacity": "7"})

    assert lanes(config)["query"].capacity == 7
