"""Resolution of requested offsets. Times and groups are tested with Spark in test_source."""

from pathlib import Path

import pytest

from kerolox.spark.cluster.connection import ConnectionOptions
from kerolox.spark.cluster.metadata import ClusterMetadata, QueueOffsets
from kerolox.spark.option_parser import OptionError
from kerolox.spark.options import OffsetSpec, read_options
from kerolox.spark.read.offset_json import EARLIEST, LATEST, Offsets
from kerolox.spark.read.queue_reader import DataLost
from kerolox.spark.read.requested_offsets import check_queues_exist, resolve_offsets
from kerolox.spark.read.task import read_task
from kerolox.spark.schema import topic_schema
from kerolox.spark.source import BatchReader
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered

Q0, Q1 = MessageQueue("broker-a", 0, "orders"), MessageQueue("broker-a", 1, "orders")
BEGINS, ENDS = {Q0: 2, Q1: 0}, {Q0: 9, Q1: 5}


def _resolve(spec: OffsetSpec) -> Offsets:
    return resolve_offsets(ClusterMetadata(ConnectionOptions(name_servers="a:1"), ""), spec, BEGINS, ENDS)


def test_earliest_and_latest_are_the_bounds_of_queues() -> None:
    assert _resolve(OffsetSpec(option="o", word=EARLIEST)) == BEGINS
    assert _resolve(OffsetSpec(option="o", word=LATEST)) == ENDS


def test_negative_offsets_mean_earliest_and_latest() -> None:
    assert _resolve(OffsetSpec(option="o", offsets={Q0: EARLIEST, Q1: LATEST})) == {Q0: 2, Q1: 5}
    assert _resolve(OffsetSpec(option="o", offsets={Q0: 4, Q1: 0})) == {Q0: 4, Q1: 0}


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({Q0: 1}, "option o has no entry for orders broker-a 1: name every queue"),
        ({Q0: 1, Q1: 1, MessageQueue("b", 0, "x"): 1}, "option o names queues that are not read: x b 0"),
        ({Q0: 10, Q1: 1}, "option o is 10 for orders broker-a 0, which ends at 9"),
    ],
)
def test_offsets_must_be_given_for_exactly_the_queues_that_are_read(offsets: Offsets, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        _resolve(OffsetSpec(option="o", offsets=offsets))


def test_times_must_be_given_for_every_queue() -> None:
    with pytest.raises(OptionError, match="option o has no entry for orders broker-a 1"):
        _resolve(OffsetSpec(option="o", times={"orders": {"broker-a": {"0": 5}}}))


def test_deleted_messages_after_a_group_offset_are_an_error_unless_data_loss_is_accepted(tmp_path: Path) -> None:
    def bodies(**options: str) -> list[bytes]:
        given = {"nameServer": brokers.namesrv_addr, "subscribe": "orders", "startingGroup": "shop", **options}
        reader = BatchReader(read_task(read_options(given, is_stream=False), topic_schema()))
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


class _Committed(ClusterMetadata):
    """A cluster with given committed offsets and ends."""

    def __init__(self, committed: Offsets, ends: Offsets) -> None:
        super().__init__(ConnectionOptions(name_servers="a:1"), "")
        self._at, self._ends = committed, ends

    def committed(self, group: str, queues: object) -> QueueOffsets:
        return QueueOffsets(self._at)

    def max_offsets(self, queues: object) -> QueueOffsets:
        return QueueOffsets(self._ends)


def test_a_group_offset_beyond_the_end_is_a_loss_unless_the_queue_has_grown() -> None:
    spec = OffsetSpec(option="startingGroup", group="shop", fallback=EARLIEST)
    lenient = OffsetSpec(option="startingGroup", group="shop", fallback=EARLIEST, fail_on_data_loss=False)

    with pytest.raises(DataLost, match="group shop is at offset 12 of orders broker-a 0, which ends at 9"):
        resolve_offsets(_Committed({Q0: 12}, {Q0: 9}), spec, BEGINS, ENDS)
    assert resolve_offsets(_Committed({Q0: 12}, {Q0: 12}), spec, BEGINS, ENDS) == {Q0: 12, Q1: 0}
    assert resolve_offsets(_Committed({Q0: 12}, {Q0: 9}), lenient, BEGINS, ENDS) == {Q0: 9, Q1: 0}


def test_named_topics_and_queues_must_exist() -> None:
    base = {"nameServer": "a:1"}
    subscribed = read_options({**base, "subscribe": "orders,bills"}, is_stream=False)
    assigned = read_options({**base, "assign": '{"orders": {"broker-a": [0, 7]}}'}, is_stream=False)
    matching = read_options({**base, "subscribePattern": "x"}, is_stream=False)

    with pytest.raises(OptionError, match="option subscribe names topics that do not exist: bills"):
        check_queues_exist(subscribed, [Q0])
    with pytest.raises(OptionError, match="option assign names queues that do not exist: orders broker-a 7"):
        check_queues_exist(assigned, [Q0])
    check_queues_exist(matching, [])
