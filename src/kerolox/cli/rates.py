"""What `kerolox top` shows: how much has moved between two looks at a cluster, and what waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kerolox.admin import AdminClient, BrokerStatus
from kerolox.cli.admin.parts import Cell
from kerolox.client.names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.errors import KeroloxError

# Looking at each topic costs a question to each of its brokers.
TOPICS_MAX = 200


@dataclass(frozen=True, slots=True)
class Look:
    """A cluster at one moment, in seconds: where queues end, and where groups are."""

    moment: float
    brokers: list[BrokerStatus] = field(default_factory=list)
    # By topic, the sum of where its queues end.
    ends: Mapping[str, int] = field(default_factory=dict)
    # By group and topic, the sum of where the group is, and what waits for it.
    places: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    members: Mapping[str, int] = field(default_factory=dict)


async def look(admin: AdminClient) -> Look:
    """Returns how things are now; what is deleted meanwhile, or does not answer, is not in it."""
    names = await admin.topics.names()
    system = set(await admin.topics.system_names())
    ends: dict[str, int] = {}
    wanted = [name for name in names if name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    for topic in wanted[:TOPICS_MAX]:
        try:
            ends[topic] = sum(offsets.max_offset for offsets in (await admin.topics.status(topic)).values())
        except KeroloxError:
            continue
    places: dict[tuple[str, str], tuple[int, int]] = {}
    members: dict[str, int] = {}
    for group in [name.removeprefix(RETRY_PREFIX) for name in names if name.startswith(RETRY_PREFIX)][:TOPICS_MAX]:
        try:
            progress = await admin.offsets.progress(group)
        except KeroloxError:
            continue
        for queue, it in progress.queues.items():
            if queue.topic.startswith(RETRY_PREFIX):
                continue
            place, lag = places.get((group, queue.topic), (0, 0))
            places[group, queue.topic] = (place + it.consumer_offset, lag + max(it.lag, 0))
        try:
            members[group] = len((await admin.connections.consumers(group)).connection_set)
        except KeroloxError:
            members[group] = 0
    brokers = await admin.cluster.brokers()
    return Look(admin.options.clock.monotonic(), brokers, ends, places, members)


def topic_rows(before: Look, now: Look) -> list[tuple[str, float, int]]:
    """Returns topics with the messages written to them for a second; the busiest first."""
    rows = [(topic, _rate(before, now, before.ends.get(topic), end), end) for topic, end in now.ends.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def group_rows(before: Look, now: Look) -> list[tuple[str, str, int, float, int, str]]:
    """Returns groups and topics with what is consumed for a second and what waits; the most behind first."""
    rows = []
    for (group, topic), (place, lag) in now.places.items():
        was = before.places.get((group, topic))
        rate = _rate(before, now, None if was is None else was[0], place)
        left = Cell("", 0) if lag == 0 else Cell("never", None)
        if lag and rate > 0:
            left = Cell(f"{lag / rate:.0f} s", lag / rate)
        rows.append((group, topic, now.members.get(group, 0), rate, lag, left))
    return sorted(rows, key=lambda row: (-row[4], row[0], row[1]))


def broker_rows(now: Look) -> list[tuple[object, ...]]:
    return [
        (
            f"{it.name}/{it.broker_id}",
            it.address,
            Cell("does not answer", None) if it.error is not None else it.version,
            it.in_tps,
            it.out_tps,
            _share(it.info.get("commitLogDiskRatio")),
        )
        for it in now.brokers
    ]


def _share(ratio: str | None) -> Cell:
    return Cell(f"{float(ratio or 0):.0%}", float(ratio) if ratio else None)


def _rate(before: Look, now: Look, was: int | None, is_now: int) -> float:
    """What was not there before has not moved; what was set back has not either."""
    seconds = now.moment - before.moment
    return 0.0 if was is None or seconds <= 0 else max(is_now - was, 0) / seconds
