"""Every kind of request has its own bound."""

from kerolox.broker import Broker, Settings
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.lanes import lanes
from kerolox.codes import RequestCode as R

# BrokerController.registerProcessor of 5.5.0; all else goes to its pool of administration.
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


def test_requests_take_the_lanes_that_stand_where_their_thread_pools_do() -> None:
    expected = {code: name for name, codes in _POOLS.items() for code in codes}

    routes = Broker(Settings()).routes

    assert {R(code): route.lane.name for code, route in routes._table.items()} == {
        R(code): expected.get(R(code), "default") for code in routes.requests
    }
    assert expected.keys() <= routes.requests.keys()
    assert lanes(BrokerConfig()).keys() == {*_POOLS, "default"}
