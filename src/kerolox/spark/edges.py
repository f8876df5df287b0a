"""Where reading begins and ends, as the user said it, in offsets."""

from collections.abc import Collection

from kerolox.spark.cluster import Cluster, Found
from kerolox.spark.given import OptionError
from kerolox.spark.offsets import EARLIEST, LATEST, Offsets, listed, time_of
from kerolox.spark.options import Edge, ReadOptions
from kerolox.spark.pulling import DataLost
from kerolox.wire.bodies.queues import MessageQueue


def queues_of(cluster: Cluster, options: ReadOptions) -> set[MessageQueue]:
    """Returns the queues that are to be read and are there now; topics that nobody knows have none."""
    topics = options.topics if options.pattern is None else cluster.topics_like(options.pattern)
    routes = cluster.routes(topics)
    queues = {queue for route in routes.values() for queue in route.read_queues}
    return queues if options.assigned is None else queues & set(options.assigned)


def check_all_there(options: ReadOptions, queues: Collection[MessageQueue]) -> None:
    """OptionError if a topic or queue that was named is not there; a pattern may match nothing."""
    missing = sorted(set(options.topics) - {queue.topic for queue in queues})
    option = "subscribe" if options.assigned is None else "assign"
    if missing:
        raise OptionError(
            f"option {option} names topics that do not exist: {', '.join(missing)}. Create them, or check nameServer"
        )
    gone = set(options.assigned or ()) - set(queues)
    if gone:
        raise OptionError(f"option assign names queues that do not exist: {listed(gone)}. See `mqadmin topicRoute`")


def all_of(found: Found) -> Offsets:
    """Returns the offsets; raises what kept one from being known."""
    for error in found.failed.values():
        raise error
    return found.offsets


def resolved(cluster: Cluster, edge: Edge, begins: Offsets, ends: Offsets) -> Offsets:
    """Returns the offset that an edge means in each queue, given where they begin and end."""
    if edge.word is not None:
        return dict(begins if edge.word == EARLIEST else ends)
    if edge.offsets is not None:
        return _given(edge, edge.offsets, begins, ends)
    if edge.group is not None:
        return _of_group(cluster, edge, begins, ends)
    return _at_times(cluster, edge, ends)


def _given(edge: Edge, offsets: Offsets, begins: Offsets, ends: Offsets) -> Offsets:
    missing, unknown = set(ends) - set(offsets), set(offsets) - set(ends)
    if missing:
        raise OptionError(f"option {edge.option} says nothing of {listed(missing)}: name every queue that is read")
    if unknown:
        raise OptionError(f"option {edge.option} names queues that are not read: {listed(unknown)}. Leave them out")
    beyond = [queue for queue, offset in offsets.items() if offset > ends[queue]]
    if beyond:
        queue = beyond[0]
        raise OptionError(
            f"option {edge.option} says {offsets[queue]} for {listed([queue])}, which ends at {ends[queue]}: "
            "give an offset that is there, or -1 for latest"
        )
    words = {EARLIEST: begins, LATEST: ends}
    return {queue: words[offset][queue] if offset in words else offset for queue, offset in offsets.items()}


def _of_group(cluster: Cluster, edge: Edge, begins: Offsets, ends: Offsets) -> Offsets:
    assert edge.group is not None
    committed = all_of(cluster.committed(edge.group, ends))
    found = (begins if edge.otherwise == EARLIEST else ends) | committed
    if not edge.fail_on_data_loss:
        # What a group has left behind may have been deleted since, or its queue made anew.
        return {queue: min(max(offset, begins[queue]), ends[queue]) for queue, offset in found.items()}
    beyond = {queue for queue, offset in found.items() if offset > ends[queue]}
    # A group that is at work may have come further than where queues ended when that was asked for.
    for queue, end in (all_of(cluster.ends(beyond)) if beyond else {}).items():
        if found[queue] > end:
            raise DataLost(
                f"group {edge.group} is at offset {found[queue]} of {listed([queue])}, which ends at {end}: messages "
                "were lost, or the topic was made anew. Set the group back (mqadmin resetOffsetByTime), or set option "
                "failOnDataLoss to false to read what comes"
            )
    # Who begins before the first message finds out which are lost when they are read.
    return found


def _at_times(cluster: Cluster, edge: Edge, ends: Offsets) -> Offsets:
    times = {queue: time_of(edge.times, queue) for queue in ends}
    unsaid = [queue for queue, millis in times.items() if millis is None]
    if unsaid:
        raise OptionError(f"option {edge.option} says nothing of {listed(unsaid)}: name every queue that is read")
    found = all_of(cluster.at({queue: millis for queue, millis in times.items() if millis is not None}, ends))
    if edge.otherwise is None:
        late = [queue for queue, offset in found.items() if offset == ends[queue]]
        if late:
            raise OptionError(
                f"option {edge.option}: nothing was stored at that time or later in {listed(late)}. Give an earlier "
                "time, or set startingOffsetsByTimestampStrategy to latest"
            )
    return found
