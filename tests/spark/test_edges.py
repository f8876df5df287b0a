"""Where reading begins and ends. What times and groups mean is tested with Spark in test_source."""

import pytest

from kerolox.spark.cluster import Cluster
from kerolox.spark.connecting import Connect
from kerolox.spark.edges import check_all_there, resolved
from kerolox.spark.given import OptionError
from kerolox.spark.offsets import EARLIEST, LATEST, Offsets
from kerolox.spark.options import Edge, read_options
from kerolox.wire.bodies.queues import MessageQueue

Q0, Q1 = MessageQueue("broker-a", 0, "orders"), MessageQueue("broker-a", 1, "orders")
BEGINS, ENDS = {Q0: 2, Q1: 0}, {Q0: 9, Q1: 5}


def _resolved(edge: Edge) -> Offsets:
    return resolved(Cluster(Connect(name_servers="a:1"), ""), edge, BEGINS, ENDS)


def test_words_mean_the_edges_of_queues() -> None:
    assert _resolved(Edge(option="o", word=EARLIEST)) == BEGINS
    assert _resolved(Edge(option="o", word=LATEST)) == ENDS


def test_offsets_mean_themselves_but_for_those_that_are_words() -> None:
    assert _resolved(Edge(option="o", offsets={Q0: EARLIEST, Q1: LATEST})) == {Q0: 2, Q1: 5}
    assert _resolved(Edge(option="o", offsets={Q0: 4, Q1: 0})) == {Q0: 4, Q1: 0}


@pytest.mark.parametrize(
    ("offsets", "complaint"),
    [
        ({Q0: 1}, "option o says nothing of orders broker-a 1: name every queue"),
        ({Q0: 1, Q1: 1, MessageQueue("b", 0, "x"): 1}, "option o names queues that are not read: x b 0"),
        ({Q0: 10, Q1: 1}, "option o says 10 for orders broker-a 0, which ends at 9"),
    ],
)
def test_offsets_must_be_there_for_every_queue_and_no_other(offsets: Offsets, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        _resolved(Edge(option="o", offsets=offsets))


def test_times_must_be_there_for_every_queue() -> None:
    with pytest.raises(OptionError, match="option o says nothing of orders broker-a 1"):
        _resolved(Edge(option="o", times={"orders": {"broker-a": {"0": 5}}}))


def test_what_was_named_must_exist() -> None:
    base = {"nameServer": "a:1"}
    listed = read_options({**base, "subscribe": "orders,bills"}, is_stream=False)
    assigned = read_options({**base, "assign": '{"orders": {"broker-a": [0, 7]}}'}, is_stream=False)
    matching = read_options({**base, "subscribePattern": "x"}, is_stream=False)

    with pytest.raises(OptionError, match="option subscribe names topics that do not exist: bills"):
        check_all_there(listed, [Q0])
    with pytest.raises(OptionError, match="option assign names queues that do not exist: orders broker-a 7"):
        check_all_there(assigned, [Q0])
    check_all_there(matching, [])
