"""Which files are deleted and when, and when messages are refused."""

import asyncio
import contextlib
import errno
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from kerolox.runtime.clock import ManualClock
from kerolox.store.config import FlushDiskType, Hours
from kerolox.store.errors import StoreFull
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.store.disks import SimulatedDisk
from tests.store.stores import (
    LOG,
    ROOT,
    SEGMENT_SIZE,
    StillClock,
    all_records,
    config,
    draft,
    draft_of_size,
    numbered_records,
    opened,
    put,
    run,
    without_threads,
)

HOUR = 3600
QUEUE = ROOT / "consumequeue" / "t" / "0"


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)


class Fixture:
    """A store with a disk and clock of the test's. The current hour is not one in which files are deleted."""

    def __init__(self, clock: ManualClock, **settings: object) -> None:
        self.clock = clock
        self.disk = SimulatedDisk()
        self.disk.millis = clock.millis
        hour = datetime.fromtimestamp(clock.millis() / 1000).hour
        settings = {"delete_when": Hours(f"{(hour + 12) % 24:02d}"), "delete_commit_log_files_interval": 0, **settings}
        self.store = opened(self.disk, config(**settings), clock)

    @property
    def files(self) -> list[int]:
        return [int(name) // SEGMENT_SIZE for name in self.disk.names(LOG)]

    def fill(self, files: int) -> None:
        """Write records that fill a file each, and a small one in the next file."""
        for _ in range(files):
            put(self.store, draft_of_size(SEGMENT_SIZE - 8))
        put(self.store, draft_of_size(100))

    def use(self, ratio: float) -> None:
        """Set the capacity so that the disk has this usage."""
        run(self.store.flush_behind.flush())
        self.disk.capacity = 1
        self.disk.capacity = round(self.disk.used_ratio(ROOT) / ratio)


def fixture_with_still_clock(**settings: object) -> Fixture:
    return Fixture(StillClock(), **settings)


def move(fixture: Fixture, hours: float) -> None:
    assert isinstance(fixture.clock, StillClock)
    fixture.clock.move(hours * HOUR)


@contextlib.asynccontextmanager
async def running(store: Store) -> AsyncIterator[None]:
    task = asyncio.create_task(store.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


# Expiry and hours


@pytest.mark.usefixtures("threadless")
def test_expired_files_are_deleted_in_the_configured_hours_except_the_last() -> None:
    fixture = fixture_with_still_clock()
    fixture.fill(2)
    move(fixture, 24)
    # The third file is continued, and two follow it.
    fixture.fill(1)
    hour = datetime.fromtimestamp(fixture.clock.millis() / 1000).hour
    move(fixture, 48)
    assert run(fixture.store.retention.clean()) == 0

    fixture.store.config.delete_when = Hours(f"{(hour + 5) % 24};{hour:02d}")

    assert run(fixture.store.retention.clean()) == 2
    assert fixture.files == [2, 3, 4]
    move(fixture, 24)
    assert run(fixture.store.retention.clean()) == 2
    assert fixture.files == [4]
    move(fixture, 240)
    assert run(fixture.store.retention.clean()) == 0
    assert [offset for offset, _ in numbered_records(fixture.store, "t", 0)] == [4]


@pytest.mark.usefixtures("threadless")
def test_in_other_hours_expired_files_are_deleted_only_on_request_for_twenty_rounds() -> None:
    fixture = fixture_with_still_clock(delete_file_batch_max=1)
    fixture.fill(22)
    move(fixture, 72)

    assert run(fixture.store.retention.clean()) == 0
    fixture.store.retention.request_deletion()

    assert [run(fixture.store.retention.clean()) for _ in range(21)] == [1] * 20 + [0]
    assert fixture.files == [20, 21, 22]


@pytest.mark.usefixtures("threadless")
def test_a_request_deletes_no_unexpired_file() -> None:
    fixture = fixture_with_still_clock()
    fixture.fill(3)
    move(fixture, 71.9)
    fixture.store.retention.request_deletion()

    assert run(fixture.store.retention.clean()) == 0


@pytest.mark.usefixtures("threadless")
def test_an_unexpired_file_keeps_the_files_after_it() -> None:
    fixture = fixture_with_still_clock()
    fixture.fill(3)
    move(fixture, 72)
    name = fixture.disk.names(LOG)[0]
    file = fixture.disk.open(LOG / name)
    file.write(0, file.read(0, 1))
    file.close()
    fixture.store.retention.request_deletion()

    assert run(fixture.store.retention.clean()) == 0
    assert fixture.files == [0, 1, 2, 3]


# Disk usage


@pytest.mark.usefixtures("threadless")
def test_above_the_first_ratio_expired_files_are_deleted_at_any_hour() -> None:
    fixture = fixture_with_still_clock()
    fixture.fill(3)
    fixture.use(0.76)
    assert run(fixture.store.retention.clean()) == 0
    move(fixture, 72)
    fixture.use(0.74)
    assert run(fixture.store.retention.clean()) == 0
    fixture.use(0.76)

    assert run(fixture.store.retention.clean()) == 3


@pytest.mark.usefixtures("threadless")
def test_above_the_second_ratio_as_few_unexpired_files_as_needed_are_deleted() -> None:
    fixture = fixture_with_still_clock(message_index_enable=False)
    fixture.fill(19)
    fixture.use(0.89)

    assert run(fixture.store.retention.clean()) == 1

    assert fixture.store.retention.used_ratio < 0.85
    assert fixture.store.retention.refusal is None
    assert run(fixture.store.retention.clean()) == 0


@pytest.mark.usefixtures("threadless")
def test_unexpired_files_are_kept_if_forced_cleaning_is_disabled() -> None:
    fixture = fixture_with_still_clock(clean_file_forcibly_enable=False)
    fixture.fill(3)
    fixture.use(0.89)

    assert run(fixture.store.retention.clean()) == 0


@pytest.mark.usefixtures("threadless")
@pytest.mark.parametrize(
    ("ratios", "used", "is_refused", "deleted"),
    [
        ({"disk_space_warning_level_ratio": 99}, 0.905, True, 1),
        ({"disk_space_warning_level_ratio": 1}, 0.345, False, 0),
        ({"disk_space_warning_level_ratio": 1}, 0.36, True, 1),
        ({"disk_space_clean_forcibly_ratio": 99}, 0.86, False, 1),
        ({"disk_max_used_space_ratio": 95}, 0.86, False, 1),
        ({"disk_max_used_space_ratio": 95}, 0.84, False, 0),
        ({"disk_space_clean_forcibly_ratio": 1, "disk_max_used_space_ratio": 1}, 0.29, False, 0),
        ({"disk_space_clean_forcibly_ratio": 1, "disk_max_used_space_ratio": 1}, 0.31, False, 1),
    ],
)
def test_ratios_have_the_limits_of_rocketmq(
    ratios: dict[str, int], used: float, is_refused: bool, deleted: int
) -> None:
    fixture = fixture_with_still_clock(delete_file_batch_max=1, **ratios)
    fixture.fill(40)
    fixture.use(used)

    run(fixture.store.retention.check_disk())
    assert (fixture.store.retention.refusal is not None) is is_refused

    assert run(fixture.store.retention.clean()) == deleted


@pytest.mark.usefixtures("threadless")
async def test_a_nearly_full_disk_refuses_messages_but_serves_reads_until_there_is_room() -> None:
    fixture = Fixture(ManualClock(), clean_file_forcibly_enable=False)
    fixture.fill(1)
    async with running(fixture.store):
        fixture.use(0.91)
        await fixture.clock.advance(11)

        with pytest.raises(StoreFull, match=r"91\.\d% full, messages are refused above 90%"):
            fixture.store.append([draft()])
        with pytest.raises(StoreFull):
            await fixture.store.put(draft())
        assert len(all_records(fixture.store, "t")) == 2
        fixture.use(0.89)
        await fixture.clock.advance(2)
        put(fixture.store, draft())


@pytest.mark.usefixtures("threadless")
async def test_the_first_check_comes_after_a_second_and_the_first_deletion_after_a_minute() -> None:
    fixture = Fixture(ManualClock())
    fixture.fill(20)
    fixture.use(0.95)
    async with running(fixture.store):
        await fixture.clock.advance(2)
        assert fixture.store.retention.refusal is not None
        await fixture.clock.advance(57)
        assert len(fixture.files) == 21

        await fixture.clock.advance(2)

        assert len(fixture.files) < 21
        assert fixture.store.retention.refusal is None
        put(fixture.store, draft())


@pytest.mark.usefixtures("threadless")
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_loses_its_oldest_file_at_once(error: int) -> None:
    fixture = Fixture(ManualClock())
    fixture.fill(3)
    async with running(fixture.store):
        fixture.disk.fail("allocate", error, count=1)
        with pytest.raises(StoreFull):
            fixture.store.append([draft_of_size(SEGMENT_SIZE - 8)])
        # A message that fits into the current file needs no new one.
        put(fixture.store, draft_of_size(100))

        await fixture.clock.advance(2)

        assert fixture.files == [1, 2, 3]
        put(fixture.store, draft_of_size(SEGMENT_SIZE - 8))
        await fixture.clock.advance(20)
        # The last but one is full, and the next is allocated in advance.
        assert fixture.files == [1, 2, 3, 4, 5]


@pytest.mark.usefixtures("threadless")
async def test_files_that_unwritten_queues_need_are_kept() -> None:
    """Otherwise their entries could not be rebuilt, and their offsets would be assigned twice."""
    fixture = Fixture(ManualClock())
    fixture.fill(2)
    await fixture.store.flush_behind.flush()
    needed = fixture.store.log.end_offset
    put(fixture.store, draft_of_size(3000, "u"))
    fixture.fill(2)
    fixture.disk.fail("write", errno.ENOSPC, inside="consumequeue")
    async with running(fixture.store):
        await fixture.clock.advance(90)

        assert fixture.files[0] == needed // SEGMENT_SIZE
        assert fixture.store.flush_behind.safe_offset == needed
    left = fixture.disk.after_kill()
    assert len(all_records(opened(left), "u")) == 1


@pytest.mark.usefixtures("threadless")
def test_after_a_failed_sync_of_a_queue_nothing_is_deleted() -> None:
    fixture = fixture_with_still_clock()
    fixture.fill(3)
    move(fixture, 72)
    fixture.disk.fail("sync", errno.EIO, inside="consumequeue", count=1)
    fixture.store.retention.request_deletion()

    assert [run(fixture.store.retention.clean()) for _ in range(3)] == [0, 0, 0]


@pytest.mark.usefixtures("threadless")
def test_a_file_that_cannot_be_removed_keeps_the_files_after_it() -> None:
    fixture = fixture_with_still_clock()
    fixture.fill(3)
    move(fixture, 72)
    fixture.disk.fail("remove", errno.EIO, count=1)
    fixture.store.retention.request_deletion()

    with pytest.raises(OSError, match="Input/output"):
        run(fixture.store.retention.clean())
    assert fixture.files == [0, 1, 2, 3]
    assert len(all_records(fixture.store, "t")) == 4

    assert run(fixture.store.retention.clean()) == 3


@pytest.mark.usefixtures("threadless")
async def test_the_service_continues_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    fixture = Fixture(ManualClock())
    fixture.fill(3)
    fixture.store.config.file_reserved_time = 0
    fixture.disk.fail("remove", errno.EIO, count=1)
    fixture.store.retention.request_deletion()
    async with running(fixture.store):
        await fixture.clock.advance(61)
        assert "could not be deleted, retrying" in caplog.text
        await fixture.clock.advance(11)

    assert fixture.files == [3]


# Queues, index and readers


@pytest.mark.usefixtures("threadless")
def test_queues_and_index_are_trimmed_and_readers_get_new_offsets() -> None:
    fixture = fixture_with_still_clock(file_reserved_time=0, delete_file_batch_max=100)
    for number in range(60):
        put(fixture.store, draft(b"x" * 900, "t", 0, KEYS=f"k{number}"))
    put(fixture.store, draft(b"y", "idle"))
    fixture.fill(1)
    assert fixture.store.index is not None
    index_files = len(fixture.store.index.paths)
    fixture.store.retention.request_deletion()

    run(fixture.store.retention.clean())

    queue = fixture.store.queues.find("t", 0)
    assert (queue.min_offset, queue.max_offset) == (61, 62)
    assert fixture.disk.names(QUEUE) == [f"{56 * 20:020d}"]
    assert len(fixture.store.index.paths) == 1 < index_files
    assert fixture.store.reader.find("t", b"k3") == []
    got = fixture.store.reader.get("t", 0, 3)
    assert (got.status, got.next_offset) == (GetStatus.OFFSET_TOO_SMALL, 61)
    idle = fixture.store.queues.find("idle", 0)
    assert (idle.min_offset, idle.max_offset) == (1, 1)
    assert fixture.store.reader.get("idle", 0, 0).status is GetStatus.OFFSET_TOO_SMALL
    assert fixture.store.reader.get("idle", 0, 1).status is GetStatus.OFFSET_OVERFLOW_ONE
    run(fixture.store.close())
    again = opened(fixture.disk, fixture.store.config)
    idle = again.queues.find("idle", 0)
    assert (idle.min_offset, idle.max_offset) == (1, 1)
    assert put(again, draft(b"z", "idle"))[0].queue_offset == 1
    assert len(all_records(again, "idle")) == 1


@pytest.mark.usefixtures("threadless")
def test_a_reader_gets_message_was_removing_until_queues_are_trimmed() -> None:
    fixture = fixture_with_still_clock(file_reserved_time=0)
    put(fixture.store, draft(b"x", "u"))
    fixture.fill(3)
    run(fixture.store.flush_behind.flush())

    fixture.store.log.delete_before(3 * SEGMENT_SIZE)

    got = fixture.store.reader.get("t", 0, 0, count_max=1)
    assert (got.status, len(got.records), got.next_offset) == (GetStatus.FOUND, 1, 3)
    got = fixture.store.reader.get("u", 0, 0)
    assert (got.status, got.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 1)


@pytest.mark.usefixtures("threadless")
def test_the_next_start_removes_index_files_that_a_stop_left() -> None:
    fixture = fixture_with_still_clock(file_reserved_time=0)
    for number in range(60):
        put(fixture.store, draft(b"x" * 900, "t", 0, KEYS=f"k{number}"))
    run(fixture.store.flush_behind.flush())
    fixture.store.log.delete_before(fixture.store.log.end_offset)

    again = opened(fixture.disk.after_kill(), fixture.store.config, fixture.clock)
    assert again.index is not None
    before = len(again.index.paths)
    run(again.retention.clean())

    assert len(again.index.paths) == 1 < before


async def test_a_running_sync_and_a_reader_survive_the_deletion_of_their_file() -> None:
    """The sync holds its file in a thread while the reader runs."""
    fixture = fixture_with_still_clock(file_reserved_time=0)
    store = fixture.store
    fixture.fill(3)
    await store.flush_behind.flush()
    reached, resume = threading.Event(), threading.Event()
    held = store.log.prepare_sync(0, 2 * SEGMENT_SIZE)
    real = fixture.disk.remove

    def remove(path: Path) -> None:
        reached.set()
        assert resume.wait(10)
        real(path)

    fixture.disk.remove = remove  # type: ignore[method-assign]
    store.retention.request_deletion()
    cleaning = asyncio.create_task(store.retention.clean())
    assert await asyncio.to_thread(reached.wait, 10)

    # The first file still exists, but is no longer part of the log.
    assert store.log.first_offset == SEGMENT_SIZE
    got = store.reader.get("t", 0, 0, count_max=1)
    assert (got.status, got.next_offset) == (GetStatus.FOUND, 2)
    put(store, draft(b"meanwhile", "t"))
    resume.set()

    assert await cleaning == 3
    held.run()
    store.log.release(held)
    assert held.is_done
    await store.close()
    assert fixture.disk.open_count == 0


async def test_a_cancelled_round_leaves_a_consistent_store() -> None:
    fixture = fixture_with_still_clock(file_reserved_time=0)
    fixture.fill(3)
    await fixture.store.flush_behind.flush()
    reached, resume = threading.Event(), threading.Event()
    real = fixture.disk.remove

    def remove(path: Path) -> None:
        reached.set()
        assert resume.wait(10)
        real(path)

    fixture.disk.remove = remove  # type: ignore[method-assign]
    fixture.store.retention.request_deletion()
    cleaning = asyncio.create_task(fixture.store.retention.clean())
    assert await asyncio.to_thread(reached.wait, 10)
    cleaning.cancel()
    resume.set()
    await asyncio.wait([cleaning])

    assert cleaning.cancelled()
    assert fixture.files == [1, 2, 3]
    assert fixture.store.log.first_offset == SEGMENT_SIZE
    await fixture.store.close()
    assert [offset for offset, _ in numbered_records(opened(fixture.disk), "t", 0)] == [1, 2, 3]


@pytest.mark.usefixtures("threadless")
@pytest.mark.parametrize("flush", FlushDiskType)
def test_the_last_file_is_kept_even_if_it_is_full_or_not_dispatched(flush: FlushDiskType) -> None:
    fixture = fixture_with_still_clock(file_reserved_time=0, flush_disk_type=flush)
    for _ in range(3):
        put(fixture.store, draft_of_size(SEGMENT_SIZE - 8))
    fixture.store.retention.request_deletion()

    assert run(fixture.store.retention.clean()) == 2
    assert fixture.files == [2]
    assert put(fixture.store, draft_of_size(200))[0].queue_offset == 3


SMALL_DISK = """
    import asyncio, sys
    from pathlib import Path
    from kerolox.runtime.clock import SystemClock
    from kerolox.store.config import StoreConfig
    from kerolox.store.errors import StoreFull
    from kerolox.store.store import Store
    from tests.store.stores import draft

    class FastClock(SystemClock):
        def monotonic(self):
            return super().monotonic() * 50

        async def sleep(self, seconds):
            await asyncio.sleep(seconds / 50)

    async def main(root):
        clock = FastClock()
        config = StoreConfig(
            store_path_root_dir=root / "store", mapped_file_size_commit_log=1 << 20, max_hash_slot_num=100,
            max_index_num=400, mapped_file_size_consume_queue=2000, disk_max_used_space_ratio=95,
        )
        store = Store(config, clock=clock)
        await store.open()
        running = asyncio.create_task(store.run())
        refused = count = 0
        while store.log.first_offset < 3 << 20 or not refused:
            try:
                position, _ = await store.put(draft(b"x" * 50_000, "t"))
                count += 1
                assert position.queue_offset == count - 1
            except StoreFull:
                refused += 1
                await clock.sleep(0.5)
        # Another process fills the rest of the disk.
        with (root / "other").open("wb", buffering=0) as other:
            try:
                while True:
                    other.write(bytes(4096))
            except OSError:
                pass
        for _ in range(200):
            await asyncio.sleep(0)
            try:
                await store.put(draft(b"x" * 50_000, "t"))
                count += 1
            except StoreFull:
                break
        else:
            raise AssertionError("nothing was refused")
        (root / "other").unlink()
        async with asyncio.timeout(10):
            while True:
                try:
                    await store.put(draft(b"last", "t"))
                    break
                except StoreFull:
                    await clock.sleep(0.5)
        running.cancel()
        await asyncio.wait([running])
        await store.close()
        again = Store(config)
        again.recover()
        queue = again.queues.find("t", 0)
        assert queue.max_offset == count + 1, (queue.max_offset, count)
        for offset in range(queue.min_offset, queue.max_offset):
            assert len(again.reader.get("t", 0, offset, count_max=1).records) == 1
        print("survived", refused > 0)

    asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_a_full_real_disk_refuses_messages_deletes_files_and_recovers(tmp_path: Path) -> None:
    """On a tmpfs of 12 MiB in a mount namespace."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SMALL_DISK))
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'mount -t tmpfs -o size=12m tmpfs "$0" && shift 0 && exec "$@"',
        str(directory),
    ]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")

    path = [str(Path(__file__).parents[3]), *sys.path]
    done = subprocess.run(
        [*mount, sys.executable, str(script), str(directory)],
        env={"PYTHONPATH": ":".join(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == "survived True\n", done.stderr
