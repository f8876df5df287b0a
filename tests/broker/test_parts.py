"""The request queues of a broker and their capacities."""

from kerolox.broker import Broker, Settings
from kerolox.broker.config import BrokerConfig
from kerolox.broker.parts import build_request_queues
from kerolox.codes import RequestCode as R

# BrokerController.registerProcessor of 5.5.0; all other requests use its admin pool.
_POOLS = {
    "send": [R.SEND_MESSAGE, R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE, R.CONSUMER_SEND_MSG_BACK, R.RECALL_MESSAGE],
    "pull": [R.PULL_MESSAGE, R.POP_MESSAGE, R.PEEK_MESSAGE, R.NOTIFICATION, R.POLLING_INFO],
    "litePull": [R.LITE_PULL_MESSAGE],
    "ack": [R.ACK_MESSAGE, R.BATCH_ACK_MESSAGE, R.CHANGE_MESSAGE_INVISIBLETIME],
    "reply": [R.SEND_REPLY_MESSAGE, R.SEND_REPLY_MESSAGE_V2],
    "query": [R.QUERY_MESSAGE, R.VIEW_MESSAGE_BY_ID],
    "heartbeat": [R.HEART_BEAT],
    "clientManager": [R.UNREGISTER_CLIENT, R.CHECK_CLIENT_CONFIG],
    "consumerManager": [R.GET_CONSUMER_LIST_BY_GROUP, R.UPDATE_CONSUMER_OFFSET, R.QUERY_CONSUMER_OFFSET],
    "endTransaction": [R.END_TRANSACTION],
    "loadBalance": [R.QUERY_ASSIGNMENT, R.SET_MESSAGE_REQUEST_MODE],
}


def test_capacities_are_those_of_the_thread_pool_queues_in_java() -> None:
    assert {name: queue.capacity for name, queue in build_request_queues(BrokerConfig()).items()} == {
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


def test_a_capacity_can_be_configured() -> None:
    config = BrokerConfig()
    config.update({"queryThreadPoolQueueCapacity": "7"})

    assert build_request_queues(config)["query"].capacity == 7


def test_requests_use_the_queue_of_their_thread_pool_in_java() -> None:
    expected = {code: name for name, codes in _POOLS.items() for code in codes}

    router = Broker(Settings()).router

    assert {R(code): route.request_queue.name for code, route in router._table.items()} == {
        R(code): expected.get(R(code), "default") for code in router.requests
    }
    assert expected.keys() <= router.requests.keys()
    assert build_request_queues(BrokerConfig()).keys() == {*_POOLS, "default"}
