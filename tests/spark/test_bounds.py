"""What keeps queues from being read as far as they are to be, with real brokers."""

from pathlib import Path

from kerolox.errors import ConnectFailed
from kerolox.spark.bounds import Bounds, bounds_of
from kerolox.spark.cluster import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.spark.clusters import Brokers, numbered
from tests.spark.planned import reading_from

A0, A1, B0 = (MessageQueue(broker, queue, "orders") for broker, queue in (("a", 0), ("a", 1), ("b", 0)))


def test_queues_are_long_enough_short_gone_or_silent(tmp_path: Path) -> None:
    with Brokers(tmp_path, "a") as cluster:
        cluster.create("orders", 2)
        cluster.send("orders", *numbered(3), broker="a")
        options = reading_from(cluster, "orders").options
        asked = Cluster(options.connect, options.pull_group)

        assert bounds_of(asked, options, {A0: 3, A1: 0}) == Bounds({A0: 0, A1: 0}, {A0: 3, A1: 0})
        assert bounds_of(asked, options, {A0: 4, B0: 1}) == Bounds(
            {A0: 0}, {A0: 3}, unlisted=frozenset({B0}), short={A0: 4}
        )
        cluster.stop_name_server()
        silent = bounds_of(asked, options, {A0: 4, B0: 1})
        assert (set(silent.silent), silent.ends, silent.is_whole) == ({A0, B0}, {}, False)


def test_people_are_told_what_is_missing_and_why() -> None:
    refused, late = ConnectFailed("refused"), ConnectFailed("late")

    bounds = Bounds({}, {A1: 2}, {A0: refused, B0: late}, frozenset(), {A1: 5})

    assert str(bounds) == (
        "nobody answers for orders a 0: refused; nobody answers for orders b 0: late; "
        "orders a 1 ends at offset 2, and offset 5 was to be reached"
    )
    assert str(Bounds(unlisted=frozenset({B0, A0}))) == "nobody has orders a 0, orders b 0"
