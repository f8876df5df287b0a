"""Bounds of queues, with real brokers."""

from pathlib import Path

from kerolox.errors import ConnectFailed
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.read.queue_bounds import QueueBounds, query_bounds
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered
from tests.spark.planned import read_task_for

A0, A1, B0 = (MessageQueue(broker, queue, "orders") for broker, queue in (("a", 0), ("a", 1), ("b", 0)))


def test_bounds_distinguish_complete_short_unlisted_and_unreachable_queues(tmp_path: Path) -> None:
    with Brokers(tmp_path, "a") as cluster:
        cluster.create("orders", 2)
        cluster.send("orders", *numbered(3), broker="a")
        options = read_task_for(cluster, "orders").options
        asked = ClusterMetadata(options.connection, options.pull_group)

        assert query_bounds(asked, options, {A0: 3, A1: 0}) == QueueBounds({A0: 0, A1: 0}, {A0: 3, A1: 0})
        assert query_bounds(asked, options, {A0: 4, B0: 1}) == QueueBounds(
            {A0: 0}, {A0: 3}, unlisted=frozenset({B0}), short={A0: 4}
        )
        cluster.stop_name_server()
        unreachable = query_bounds(asked, options, {A0: 4, B0: 1})
        assert (set(unreachable.unreachable), unreachable.ends, unreachable.is_complete) == ({A0, B0}, {}, False)


def test_the_text_of_bounds_names_queues_and_reasons() -> None:
    refused, late = ConnectFailed("refused"), ConnectFailed("late")

    bounds = QueueBounds({}, {A1: 2}, {A0: refused, B0: late}, frozenset(), {A1: 5})

    assert str(bounds) == (
        "no response for orders a 0: refused; no response for orders b 0: late; "
        "orders a 1 ends at offset 2, before the wanted offset 5"
    )
    assert str(QueueBounds(unlisted=frozenset({B0, A0}))) == "no NameServer lists orders a 0, orders b 0"
