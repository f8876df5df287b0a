"""Where reading begins and ends. What times and groups mean is tested with Spark in test_source."""

from pathlib import Path

import pytest

from kerolox.spark.cluster import Cluster, Found
from kerolox.spark.connecting import Connect
from kerolox.spark.edges import check_all_there, resolved
from kerolox.spark.given import OptionError
from kerolox.spark.offsets import EARLIEST, LATEST, Offsets
from kerolox.spark.options import Edge, read_options
from kerolox.spark.pulling import DataLost
from kerolox.spark.schema import columns
from kerolox.spark.source import BatchReader
from kerolox.spark.tasks import reading_of
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered

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


def test_what_a_group_has_not_read_and_was_deleted_is_lost_unless_that_may_be(tmp_path: Path) -> None:
    def bodies(**options: str) -> list[bytes]:
        given = {"nameServer": brokers.namesrv_addr, "subscribe": "orders", "startingGroup": "shop", **options}
        reader = BatchReader(reading_of(read_options(given, is_stream=False), columns()))
        return [
            body for part in reader.partitions() for batch in reader.read(part) for body in batch["body"].to_pylist()
        ]

    with Brokers(tmp_path) as brokers:
        brokers.create("orders", 1)
        sent = brokers.send("orders", *numbered(10))
        brokers.admin.groups.create("shop")
        brokers.admin.offsets.commit("shop", Q0, 2)
        queue = brokers.brokers["broker-a"].store.queues.get("orders", 0)
        assert queue is not None
        queue.min_offset = 6

        with pytest.raises(DataLost, match="offsets 2 to 5 of queue 0 of topic orders on broker broker-a are lost"):
            bodies()
        assert bodies(failOnDataLoss="false") == sent[6:]


class _Committed(Cluster):
    """One in which a group is somewhere, and queues end elsewhere by now."""

    def __init__(self, committed: Offsets, ends: Offsets) -> None:
        super().__init__(Connect(name_servers="a:1"), "")
        self._at, self._ends = committed, ends

    def committed(self, group: str, queues: object) -> Found:
        return Found(self._at)

    def ends(self, queues: object) -> Found:
        return Found(self._ends)


def test_a_group_that_is_beyond_the_end_has_lost_something_unless_messages_came_meanwhile() -> None:
    edge = Edge(option="startingGroup", group="shop", otherwise=EARLIEST)
    lenient = Edge(option="startingGroup", group="shop", otherwise=EARLIEST, fail_on_data_loss=False)

    with pytest.raises(DataLost, match="group shop is at offset 12 of orders broker-a 0, which ends at 9"):
        resolved(_Committed({Q0: 12}, {Q0: 9}), edge, BEGINS, ENDS)
    assert resolved(_Committed({Q0: 12}, {Q0: 12}), edge, BEGINS, ENDS) == {Q0: 12, Q1: 0}
    assert resolved(_Committed({Q0: 12}, {Q0: 9}), lenient, BEGINS, ENDS) == {Q0: 9, Q1: 0}


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
