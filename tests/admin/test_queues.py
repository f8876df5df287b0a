"""Queues, from one end to the other."""

from datetime import datetime

import pytest

from kerolox.admin import AdminClient
from kerolox.errors import SystemFailure
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.admin.clients import GROUP, QUEUE, TOPIC, consuming, prepared

EMPTY = MessageQueue("broker-a", 1, TOPIC)


async def test_the_ends_of_a_queue_are_found(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)

    assert [await admin.queues.min_offset(queue) for queue in (QUEUE, EMPTY)] == [0, 0]
    assert [await admin.queues.max_offset(queue) for queue in (QUEUE, EMPTY)] == [3, 0]
    stored = await admin.queues.earliest_millis(QUEUE)
    assert stored == (await admin.messages.at(QUEUE, 0)).stored_millis
    assert await admin.queues.earliest_millis(EMPTY) is None


async def test_an_offset_is_found_by_time(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)
    last = (await admin.messages.at(QUEUE, 2)).stored_at

    assert await admin.queues.search(QUEUE, 0) == 0
    assert await admin.queues.search(QUEUE, last) <= 2
    assert await admin.queues.search(QUEUE, last, is_upper=True) == 2
    assert await admin.queues.search(QUEUE, datetime.fromtimestamp(last.timestamp() + 60)) == 3


async def test_entries_are_shown_as_they_lie(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)

    async with consuming(cluster):
        data = await admin.queues.entries(QUEUE, 1, 5, group=GROUP)

    assert data is not None
    assert (data.min_queue_index, data.max_queue_index, len(data.queue_data)) == (0, 3, 2)
    assert data.subscription_data is not None
    assert data.subscription_data.topic == TOPIC
    assert await admin.queues.entries(QUEUE, 7) is None
    with pytest.raises(SystemFailure, match="is not exist"):
        await admin.queues.entries(MessageQueue("broker-a", 9, TOPIC), 0)
