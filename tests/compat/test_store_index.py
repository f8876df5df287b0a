"""Our key index has the same bytes as Apache's for the same keys, and each reads the files of the other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kerolox.runtime.clock import SystemClock
from kerolox.runtime.files import RealDisk
from kerolox.store.index.key_hashes import tag_key
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.index.layout import IndexShape
from kerolox.store.log.segments import OpenFiles
from tests.apache import SERVER_VERSIONS, VERSIONS
from tests.apache.processes import run_java
from tests.golden.record_config import run_broker
from tests.store.index_cases import (
    BEGIN,
    GOLDEN_PUTS,
    GOLDEN_SHAPE,
    TOPIC,
    Put,
    files_of,
    java_commands,
    new_index,
    put_all,
    random_puts,
)

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

SHAPE = IndexShape(slots=97, entries=300)


def run_index(version: str, directory: Path, shape: IndexShape, commands: list[str]) -> list[str]:
    """Run commands on Apache's index files, and return the printed lines."""
    lines = directory.parent / "commands.txt"
    lines.write_text("".join(f"{command}\n" for command in commands))
    directory.mkdir(exist_ok=True)
    arguments = (str(directory), str(shape.slots), str(shape.entries), str(lines))
    completed = run_java(SERVER_VERSIONS[version], "Index.java", *arguments)
    assert completed.code == 0, completed
    return completed.stdout.splitlines()


def contents(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.iterdir())]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("shape", "puts"), [(GOLDEN_SHAPE, GOLDEN_PUTS), (SHAPE, random_puts(2000, seed=1))], ids=["corners", "random"]
)
def test_the_same_puts_write_the_same_bytes(
    tmp_path: Path, version: str, shape: IndexShape, puts: tuple[Put, ...]
) -> None:
    run_index(version, tmp_path / "java", shape, java_commands(puts))

    assert files_of(tmp_path / "ours", shape, puts) == contents(tmp_path / "java")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_finds_the_same_in_the_files_of_the_other(tmp_path: Path, version: str) -> None:
    first = random_puts(1000, seed=2)
    last = first[-1]
    second = random_puts(
        1000, seed=3, start_offset=last.physical_offset + 1000, begin_timestamp=last.store_timestamp + 1000
    )
    index = new_index(RealDisk(), tmp_path / "index", SHAPE)
    put_all(index, first)
    index.close()
    chance = random.Random(4)
    lookups = []
    for _ in range(500):
        begin = BEGIN + chance.randrange(-1000, 1_200_000)
        end = begin + chance.choice((0, 60_000, 600_000, 3_600_000))
        lookups.append((b"key-%d" % chance.randrange(100), chance.choice((1, 3, 64)), begin, end))
    queries = [f"query {count} {begin} {end} {TOPIC}#{key.decode()}" for key, count, begin, end in lookups]

    answers = run_index(version, tmp_path / "index", SHAPE, [*queries, *java_commands(second), *queries])

    fresh = new_index(RealDisk(), tmp_path / "fresh", SHAPE)
    put_all(fresh, first)
    expected = [fresh.query(TOPIC, *lookup) for lookup in lookups]
    again = new_index(RealDisk(), tmp_path / "index", SHAPE)
    assert again.load() == []
    expected += [again.query(TOPIC, *lookup) for lookup in lookups]
    assert [[int(offset) for offset in answer.split()] for answer in answers] == expected
    assert sum(map(len, expected)) > 500


@pytest.mark.parametrize("version", VERSIONS)
def test_every_key_that_a_broker_has_indexed_is_found(tmp_path: Path, version: str) -> None:
    sent = run_broker(version, tmp_path / "store", count=200, seconds=1)

    for checkpoint_timestamp in (None, 0):
        shape = IndexShape(slots=10_000, entries=40_000)
        index = KeyIndex(OpenFiles(RealDisk(), 10), tmp_path / "store" / "index", SystemClock(), shape=shape)
        assert index.load(checkpoint_timestamp) == []
        for message in sent:
            for key in (message.unique_key, *message.keys):
                assert message.physical_offset in index.query(message.topic, key, 1000), (message, key)
            # Every message has this tag; only 5.5 indexes it.
            is_tagged = message.physical_offset in index.query(message.topic, tag_key(b"TagA"), 1000)
            assert is_tagged == (version >= "5"), message
        index.close()
    assert sum(len(message.keys) for message in sent) >= 300
