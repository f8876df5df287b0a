"""Queues: all consume queues of a store."""

from pathlib import Path

import pytest

from kerolox.store.errors import NotStorable
from kerolox.store.log.segments import OpenFiles
from kerolox.store.queue.queues import Queues
from tests.store.disks import SimulatedDisk

DIRECTORY = Path("/store/consumequeue")


def new_queues(disk: SimulatedDisk) -> Queues:
    return Queues(OpenFiles(disk, 10), DIRECTORY, 160)


def test_queues_are_created_on_demand_and_found_again() -> None:
    disk = SimulatedDisk()
    queues = new_queues(disk)
    assert queues.get("orders", 3) is None
    for topic, number in (("orders", 3), ("%RETRY%group", 0)):
        queues.find(topic, number).append(0, 0, 100, 0)
    for queue in queues:
        queue.flush()

    again = new_queues(disk)
    again.load()

    assert sorted(key for key, _ in again.items()) == [("%RETRY%group", 0), ("orders", 3)]
    assert len(again) == 2
    assert again.find("orders", 3).max_offset == 1


def test_an_empty_queue_has_no_files() -> None:
    disk = SimulatedDisk()

    new_queues(disk).find("orders", 0).flush()

    assert disk.names(DIRECTORY) == []


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "a\\b", "a\0b", "x" * 256, "ü" * 128])
def test_a_topic_that_cannot_be_a_directory_name_is_rejected(topic: str) -> None:
    with pytest.raises(NotStorable, match="cannot be the name of a queue directory"):
        new_queues(SimulatedDisk()).find(topic, 0)


def test_a_negative_queue_id_is_rejected() -> None:
    with pytest.raises(NotStorable, match="-1"):
        new_queues(SimulatedDisk()).find("orders", -1)
