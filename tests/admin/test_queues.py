"""Offsets, entries and timestamps of queues."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kerolox.admin import AdminClient
from kerolox.admin.queues import to_millis
from kerolox.errors import SystemFailure
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.admin.clients import GROUP, QUEUE, TOPIC, consuming, prepare

EMPTY = MessageQueue("broker-a", 1, TOPIC)


async def test_min_and_max_offset_of_a_queue(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)

    assert [await admin.queues.min_offset(queue) for queue in (QUEUE, EMPTY)] == [0, 0]
    assert [await admin.queues.max_offset(queue) for queue in (QUEUE, EMPTY)] == [3, 0]
    stored = await admin.queues.earliest_millis(QUEUE)
    assert stored == (await admin.messages.at(QUEUE, 0)).stored_millis
    assert await admin.queues.earliest_millis(EMPTY) is None


async def test_search_finds_an_offset_by_timestamp(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)
    last = (await admin.messages.at(QUEUE, 2)).stored_at

    assert await admin.queues.search(QUEUE, 0) == 0
    assert await admin.queues.search(QUEUE, last) <= 2
    assert await admin.queues.search(QUEUE, last, is_upper=True) == 2
    assert await admin.queues.search(QUEUE, datetime.fromtimestamp(last.timestamp() + 60)) == 3


async def test_entries_are_returned_as_stored(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)

    async with consuming(cluster):
        data = await admin.queues.entries(QUEUE, 1, 5, group=GROUP)

    assert data is not None
    assert (data.min_queue_index, data.max_queue_index, len(data.queue_data)) == (0, 3, 2)
    assert data.subscription_data is not None
    assert data.subscription_data.topic == TOPIC
    assert await admin.queues.entries(QUEUE, 7) is None
    with pytest.raises(SystemFailure, match="is not exist"):
        await admin.queues.entries(MessageQueue("broker-a", 9, TOPIC), 0)


def test_timestamps_are_converted_to_milliseconds() -> None:
    noon = datetime(2024, 5, 1, 12, 0, 0, 500_000, tzinfo=UTC)

    assert to_millis(noon) == 1_714_564_800_500
    assert to_millis(noon.astimezone(timezone(timedelta(hours=8)))) == 1_714_564_800_500
    assert to_millis(datetime.fromtimestamp(noon.timestamp())) == 1_714_564_800_500
    assert to_millis(-1) == -1
