"""After random damage to files that can be rebuilt, the store opens and serves all messages."""

import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.topics import TopicTable
from kerolox.store.errors import StoreDamaged
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from kerolox.store.tables import pretty
from kerolox.wire.bodies.topics import TopicConfig
from tests.crash.proofs import record_proof
from tests.store.disks import Directory, Inode, SimulatedDisk
from tests.store.stores import ROOT, StillClock, draft, put, run
from tests.store.timer.timers import NOW, Bench, no_threads, timer_config

pytestmark = [pytest.mark.usefixtures("threadless"), pytest.mark.timeout(0)]

# Number of random damages; KEROLOX_DERIVED_DAMAGES for more.
DAMAGES = int(os.environ.get("KEROLOX_DERIVED_DAMAGES", "150"))
TOPICS = {"orders": 3, "parts": 2, "returns": 4}
MESSAGES = 120
TIMED = 12
ENTRY_SIZE = 20

Written = dict[tuple[str, int], list[bytes]]


class Image(NamedTuple):
    disk: SimulatedDisk
    written: Written
    is_clean: bool


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    no_threads(monkeypatch)


def test_all_messages_are_served_after_damage_to_derived_files(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    chance = random.Random(DAMAGES)
    images = [image(is_clean=is_clean) for is_clean in (True, False)]
    refused = 0
    for number in range(DAMAGES):
        disk, written, is_clean = chance.choice(images)
        disk = disk.after_kill()
        what = damage(disk, chance)
        caplog.clear()
        case = f"{number}: {what}, {'stopped' if is_clean else 'killed'}"

        bench = Bench(disk, timer_config(), StillClock(NOW)).open()
        assert served(bench.store, chance.choice((1, 3, 32, 1000))) == written, case
        assert_found(bench.store, case, is_complete="index" not in what or "header" in what)
        refused += is_refused(bench, case, caplog)
        bench.pass_time(70)
        delivered = {peeked.decode() for peeked in bodies(bench.store)}
        assert delivered == {f"timed {number}" for number in range(TIMED)}, case
        bench.close()
        # The repair is durable.
        again = Bench(disk.after_kill(), timer_config(), StillClock(NOW)).open().store
        assert {**served(again, 32), ("timed", 0): []} == written, case
    record_proof("derived", runs=DAMAGES, promised=DAMAGES * (MESSAGES + TIMED), refused=refused)


def image(*, is_clean: bool) -> Image:
    """Return a store with plain and timer messages in several queues, some of them sent after the last flush."""
    bench = Bench().open()
    assert isinstance(bench.disk, SimulatedDisk)
    topics = table(bench.disk)
    topics.load()
    for topic, queues in TOPICS.items():
        topics.put(TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues))
    bench.disk.write(ROOT / "config" / "topics.json", pretty(topics.serialized()))
    for number in range(TIMED):
        bench.send(f"timed {number}", "timed", TIMER_DELIVER_MS=str(NOW + 5000 + number * 5000))
    for number in range(MESSAGES):
        topic = list(TOPICS)[number % 3]
        body = b"%d " % number * (number % 11)
        put(bench.store, draft(body, topic, number // 3 % TOPICS[topic], KEYS=f"k{number}", TAGS="red"))
        if number == MESSAGES - 20:
            bench.work()
            bench.flush()
            run(bench.store.flush_behind.flush())
    written = served(bench.store, 32)
    if is_clean:
        bench.close()
    return Image(bench.disk.after_kill(), written, is_clean)


def table(disk: SimulatedDisk) -> TopicTable:
    return TopicTable(BrokerConfig(broker_name="broker-a"), disk, ROOT / "config", StillClock(NOW))


def served(store: Store, count: int) -> Written:
    """Return what consumers get that read each queue from its first to its last offset."""
    found: Written = {("timed", 0): []}
    for (topic, queue_id), queue in list(store.queues.items()):
        if topic not in TOPICS and topic != "timed":
            continue
        records = found[topic, queue_id] = []
        offset = queue.min_offset
        while offset < queue.max_offset:
            got = store.reader.get(topic, queue_id, offset, count_max=count)
            records += got.records if got.status is GetStatus.FOUND else []
            offset = got.next_offset
    return found


def bodies(store: Store) -> Iterator[bytes]:
    for record in served(store, 32)["timed", 0]:
        size = int.from_bytes(record[84:88])
        yield record[88 : 88 + size]


def assert_found(store: Store, case: str, *, is_complete: bool) -> None:
    """Check that keys find no wrong message, and all messages unless index entries were damaged."""
    for number in range(MESSAGES):
        found = store.reader.find(list(TOPICS)[number % 3], b"k%d" % number)
        assert [one.keys for one in found] == [b"k%d" % number] or (not found and not is_complete), case


def is_refused(bench: Bench, case: str, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether the topic table is unreadable, which is logged; otherwise it has all topics with messages."""
    assert isinstance(bench.disk, SimulatedDisk)
    topics = table(bench.disk)
    caplog.clear()
    try:
        topics.load(bench.store.queue_counts())
    except StoreDamaged:
        assert "cannot be read" in caplog.text, case
        return True
    if not caplog.text and "topics.json" in case:
        # A changed digit or letter is not noticed, but nothing is overwritten.
        return False
    assert set(TOPICS) <= set(topics.topics), case
    return False


# Kinds of damage

Damage = Callable[[SimulatedDisk, random.Random, Path], str]


def damage(disk: SimulatedDisk, chance: random.Random) -> str:
    """Damage a derived file and return a description."""
    paths = [path for path, _ in files(disk.root, Path("/")) if is_derived(path)]
    kinds = sorted({path.relative_to(ROOT).parts[0] for path in paths})
    kind = chance.choice([*kinds, "consumequeue", "consumequeue"])
    path = chance.choice([path for path in paths if path.relative_to(ROOT).parts[0] == kind])
    return chance.choice(DAMAGE_KINDS)(disk, chance, path)


def is_derived(path: Path) -> bool:
    relative = path.relative_to(ROOT)
    names = ("checkpoint", "derived", "timerwheel", "topics.json", "timercheck", "timermetrics")
    return relative.parts[0] in ("consumequeue", "index", "timerlog") or relative.name in names


def garbage(disk: SimulatedDisk, chance: random.Random, path: Path) -> str:
    size = len(disk.content(path))
    is_header = path.parent.name == "index" and chance.random() < 0.5
    at = chance.randrange(40) if is_header else chance.randrange(size)
    data = chance.randbytes(chance.randint(1, 200))
    if is_header:
        data = data[: 40 - at]
    disk.overwrite(path, at, data[: size - at])
    return f"garbage in {'the header of ' if is_header else ''}{path} at {at}"


def zeros(disk: SimulatedDisk, chance: random.Random, path: Path) -> str:
    size = len(disk.content(path))
    at = chance.randrange(size)
    disk.overwrite(path, at, bytes(min(chance.choice((20, 200, 100_000)), size - at)))
    return f"zeros in {path} from {at} on"


def cut(disk: SimulatedDisk, chance: random.Random, path: Path) -> str:
    content = disk.content(path)
    at = chance.randrange(len(content))
    disk.write(path, content[:at])
    return f"{path} cut at {at}"


def lengthened(disk: SimulatedDisk, chance: random.Random, path: Path) -> str:
    disk.write(path, disk.content(path) + chance.randbytes(chance.randint(1, 100)))
    return f"{path} is too long"


def removed(disk: SimulatedDisk, _: random.Random, path: Path) -> str:
    disk.remove(path)
    return f"{path} is missing, header and all"


def folder_removed(disk: SimulatedDisk, chance: random.Random, path: Path) -> str:
    parents = [parent for parent in path.parents if ROOT in parent.parents and parent.name != "config"]
    if not parents:
        return removed(disk, chance, path)
    folder = chance.choice(parents)
    del directory_of(disk, folder.parent).names[folder.name]
    return f"{folder} is missing, header and all"


def swapped(disk: SimulatedDisk, chance: random.Random, path: Path) -> str:
    kind = path.relative_to(ROOT).parts[0]
    candidates = [other for other, _ in files(disk.root, Path("/")) if other.relative_to(ROOT).parts[0] == kind]
    other = chance.choice(candidates)
    one, another = directory_of(disk, path.parent).names, directory_of(disk, other.parent).names
    one[path.name], another[other.name] = another[other.name], one[path.name]
    return f"{path} and {other} are swapped, header and all"


def entries_copied(disk: SimulatedDisk, chance: random.Random, path: Path) -> str:
    """Replace some entries of a queue by those of another."""
    queues = [path for path, _ in files(disk.root, Path("/")) if path.is_relative_to(ROOT / "consumequeue")]
    target, source = chance.sample(queues, 2)
    entries = len(disk.content(target)) // ENTRY_SIZE
    first = chance.randrange(entries)
    end = chance.randint(first + 1, entries) * ENTRY_SIZE
    disk.overwrite(target, first * ENTRY_SIZE, disk.content(source)[first * ENTRY_SIZE : end])
    return f"entries of {source} in {target} from {first} on"


DAMAGE_KINDS: list[Damage] = [garbage, zeros, cut, lengthened, removed, folder_removed, swapped, entries_copied]


def directory_of(disk: SimulatedDisk, path: Path) -> Directory:
    directory = disk.root
    for part in path.parts[1:]:
        node = directory.names[part]
        assert isinstance(node, Directory)
        directory = node
    return directory


def files(directory: Directory, path: Path) -> Iterator[tuple[Path, Inode]]:
    for name, node in directory.names.items():
        if isinstance(node, Directory):
            yield from files(node, path / name)
        elif node.content:
            yield path / name, node
