"""Rates and lag of a cluster for `kerolox top`, computed from two snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kerolox.admin import AdminClient, BrokerStatus
from kerolox.cli.admin.output import Cell
from kerolox.client.resource_names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.errors import KeroloxError

# Topics, and groups, in a snapshot: each costs a request to each of its brokers.
TOPICS_MAX = 200


@dataclass(frozen=True, slots=True)
class Snapshot:
    """End offsets and group progress of a cluster at one time."""

    # Seconds of the monotonic clock.
    taken_at: float
    brokers: list[BrokerStatus] = field(default_factory=list)
    # Topic → sum of the end offsets of its queues.
    end_offsets: Mapping[str, int] = field(default_factory=dict)
    # (group, topic) → (sum of consumer offsets, lag).
    progress: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    # Group → number of connected consumers.
    members: Mapping[str, int] = field(default_factory=dict)


async def take_snapshot(admin: AdminClient) -> Snapshot:
    """Return a snapshot; topics and groups that are deleted meanwhile or do not answer are left out."""
    names = await admin.topics.names()
    system = set(await admin.topics.system_names())
    end_offsets: dict[str, int] = {}
    topics = [name for name in names if name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    for topic in topics[:TOPICS_MAX]:
        try:
            end_offsets[topic] = sum(offsets.max_offset for offsets in (await admin.topics.status(topic)).values())
        except KeroloxError:
            continue
    by_topic: dict[tuple[str, str], tuple[int, int]] = {}
    members: dict[str, int] = {}
    for group in [name.removeprefix(RETRY_PREFIX) for name in names if name.startswith(RETRY_PREFIX)][:TOPICS_MAX]:
        try:
            progress = await admin.offsets.progress(group)
        except KeroloxError:
            continue
        for queue, it in progress.queues.items():
            if queue.topic.startswith(RETRY_PREFIX):
                continue
            offset, lag = by_topic.get((group, queue.topic), (0, 0))
            by_topic[group, queue.topic] = (offset + it.consumer_offset, lag + max(it.lag, 0))
        try:
            members[group] = len((await admin.connections.consumers(group)).connection_set)
        except KeroloxError:
            members[group] = 0
    brokers = await admin.cluster.brokers()
    return Snapshot(admin.options.clock.monotonic(), brokers, end_offsets, by_topic, members)


def topic_rows(before: Snapshot, now: Snapshot) -> list[tuple[str, float, int]]:
    """Return (topic, messages written per second, end offset), busiest first."""
    rows = [
        (topic, _rate(before, now, before.end_offsets.get(topic), end), end) for topic, end in now.end_offsets.items()
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def group_rows(before: Snapshot, now: Snapshot) -> list[tuple[str, str, int, float, int, str]]:
    """Return (group, topic, members, messages consumed per second, lag, time to catch up), largest lag first."""
    rows = []
    for (group, topic), (offset, lag) in now.progress.items():
        earlier = before.progress.get((group, topic))
        rate = _rate(before, now, None if earlier is None else earlier[0], offset)
        time_left = Cell("", 0) if lag == 0 else Cell("never", None)
        if lag and rate > 0:
            time_left = Cell(f"{lag / rate:.0f} s", lag / rate)
        rows.append((group, topic, now.members.get(group, 0), rate, lag, time_left))
    return sorted(rows, key=lambda row: (-row[4], row[0], row[1]))


def broker_rows(now: Snapshot) -> list[tuple[object, ...]]:
    return [
        (
            f"{it.name}/{it.broker_id}",
            it.address,
            Cell("does not answer", None) if it.error is not None else it.version,
            it.in_tps,
            it.out_tps,
            _percentage(it.info.get("commitLogDiskRatio")),
        )
        for it in now.brokers
    ]


def _percentage(ratio: str | None) -> Cell:
    return Cell(f"{float(ratio or 0):.0%}", float(ratio) if ratio else None)


def _rate(before: Snapshot, now: Snapshot, earlier_offset: int | None, offset: int) -> float:
    """Return messages per second; 0 if the queues are new, or if an offset was reset to an earlier one."""
    seconds = now.taken_at - before.taken_at
    return 0.0 if earlier_offset is None or seconds <= 0 else max(offset - earlier_offset, 0) / seconds
