"""The file of deleted topics."""

import errno

import pytest

from kerolox.store.cleanup.deleted_topics import DeletedTopics
from tests.store.fragile_disk import ROOT, FragileDisk

PLACE = ROOT / "config" / "deletedTopics.json"


def test_only_older_records_of_the_topic_are_covered() -> None:
    deleted = DeletedTopics(FragileDisk(), PLACE)
    deleted.note("gone", 1000)

    assert deleted.covers("gone", 999)
    assert not deleted.covers("gone", 1000)
    assert not deleted.covers("other", 0)


def test_saved_topics_are_loaded_and_pruned_with_the_log() -> None:
    disk = FragileDisk()
    deleted = DeletedTopics(disk, PLACE)
    deleted.load()
    assert (deleted.offsets, deleted.is_saved) == ({}, True)
    deleted.note("%RETRY%gone", 1000)
    deleted.note("gone", 2000)
    assert not deleted.is_saved
    deleted.save(deleted.content())

    again = DeletedTopics(disk, PLACE)
    again.load()
    assert again.offsets == {"%RETRY%gone": 1000, "gone": 2000}
    again.prune(999)
    assert again.is_saved
    again.prune(1000)

    assert (again.offsets, again.is_saved) == ({"gone": 2000}, False)


def test_saving_again_syncs_after_a_failed_sync() -> None:
    disk = FragileDisk()
    disk.make_directory(PLACE.parent)
    disk.sync(PLACE.parent.parent)
    deleted = DeletedTopics(disk, PLACE)
    deleted.note("gone", 1000)
    disk.fail("sync", errno.EIO, at=1, count=1)
    with pytest.raises(OSError, match="Input/output"):
        deleted.save(deleted.content())

    deleted.save(deleted.content())

    again = DeletedTopics(next(disk.after_power_cut()), PLACE)
    again.load()
    assert again.offsets == {"gone": 1000}
