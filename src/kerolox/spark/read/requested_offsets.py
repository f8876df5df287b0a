"""Resolves the requested start and end of a read to queue offsets."""

from collections.abc import Collection

from kerolox.spark.cluster.metadata import ClusterMetadata, QueueOffsets
from kerolox.spark.option_parser import OptionError
from kerolox.spark.options import OffsetSpec, ReadOptions
from kerolox.spark.read.offset_json import EARLIEST, LATEST, Offsets, format_queues, timestamp_of
from kerolox.spark.read.queue_reader import DataLost
from kerolox.wire.bodies.queues import MessageQueue


def readable_queues(cluster: ClusterMetadata, options: ReadOptions) -> set[MessageQueue]:
    """Return the existing queues that the options select; an unknown topic has none."""
    topics = options.topics if options.pattern is None else cluster.matching_topics(options.pattern)
    routes = cluster.routes(topics)
    queues = {queue for route in routes.values() for queue in route.read_queues}
    return queues if options.assigned is None else queues & set(options.assigned)


def check_queues_exist(options: ReadOptions, queues: Collection[MessageQueue]) -> None:
    """OptionError if a named topic or queue does not exist; a pattern may match nothing."""
    missing = sorted(set(options.topics) - {queue.topic for queue in queues})
    option = "subscribe" if options.assigned is None else "assign"
    if missing:
        raise OptionError(
            f"option {option} names topics that do not exist: {', '.join(missing)}. Create them, or check nameServer"
        )
    gone = set(options.assigned or ()) - set(queues)
    if gone:
        raise OptionError(
            f"option assign names queues that do not exist: {format_queues(gone)}. See `mqadmin topicRoute`"
        )


def offsets_or_raise(queried: QueueOffsets) -> Offsets:
    """Return the offsets of all queues; raises the error of the first queue that has none."""
    for error in queried.failed.values():
        raise error
    return queried.offsets


def resolve_offsets(cluster: ClusterMetadata, spec: OffsetSpec, begins: Offsets, ends: Offsets) -> Offsets:
    """Return the requested offset of each queue, given the min and max offsets."""
    if spec.word is not None:
        return dict(begins if spec.word == EARLIEST else ends)
    if spec.offsets is not None:
        return _explicit_offsets(spec, spec.offsets, begins, ends)
    if spec.group is not None:
        return _group_offsets(cluster, spec, begins, ends)
    return _offsets_at_times(cluster, spec, ends)


def _explicit_offsets(spec: OffsetSpec, offsets: Offsets, begins: Offsets, ends: Offsets) -> Offsets:
    missing, unknown = set(ends) - set(offsets), set(offsets) - set(ends)
    if missing:
        raise OptionError(
            f"option {spec.option} has no entry for {format_queues(missing)}: name every queue that is read"
        )
    if unknown:
        raise OptionError(
            f"option {spec.option} names queues that are not read: {format_queues(unknown)}. Leave them out"
        )
    beyond = [queue for queue, offset in offsets.items() if offset > ends[queue]]
    if beyond:
        queue = beyond[0]
        raise OptionError(
            f"option {spec.option} is {offsets[queue]} for {format_queues([queue])}, which ends at {ends[queue]}: "
            "give an existing offset, or -1 for latest"
        )
    words = {EARLIEST: begins, LATEST: ends}
    return {queue: words[offset][queue] if offset in words else offset for queue, offset in offsets.items()}


def _group_offsets(cluster: ClusterMetadata, spec: OffsetSpec, begins: Offsets, ends: Offsets) -> Offsets:
    assert spec.group is not None
    committed = offsets_or_raise(cluster.committed(spec.group, ends))
    found = (begins if spec.fallback == EARLIEST else ends) | committed
    if not spec.fail_on_data_loss:
        # Messages after the group's offset may have been deleted, or the queue recreated.
        return {queue: min(max(offset, begins[queue]), ends[queue]) for queue, offset in found.items()}
    beyond = {queue for queue, offset in found.items() if offset > ends[queue]}
    # An active group may have passed the ends that were queried, so query them again.
    for queue, end in (offsets_or_raise(cluster.max_offsets(beyond)) if beyond else {}).items():
        if found[queue] > end:
            raise DataLost(
                f"group {spec.group} is at offset {found[queue]} of {format_queues([queue])}, which ends at {end}: "
                "messages were lost, or the topic was recreated. Reset the group (mqadmin resetOffsetByTime), or set "
                "option failOnDataLoss to false to start at the end"
            )
    # An offset before the first message is reported by the task that reads the queue.
    return found


def _offsets_at_times(cluster: ClusterMetadata, spec: OffsetSpec, ends: Offsets) -> Offsets:
    times = {queue: timestamp_of(spec.times, queue) for queue in ends}
    missing = [queue for queue, millis in times.items() if millis is None]
    if missing:
        raise OptionError(
            f"option {spec.option} has no entry for {format_queues(missing)}: name every queue that is read"
        )
    found = offsets_or_raise(
        cluster.offsets_at({queue: millis for queue, millis in times.items() if millis is not None}, ends)
    )
    if spec.fallback is None:
        late = [queue for queue, offset in found.items() if offset == ends[queue]]
        if late:
            raise OptionError(
                f"option {spec.option}: nothing was stored at that time or later in {format_queues(late)}. Give an "
                "earlier time, or set startingOffsetsByTimestampStrategy to latest"
            )
    return found
