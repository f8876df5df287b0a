"""Keys of many records hashed at once: the files are the same as if they were put one by one."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.columns import Columns
from kerolox.message.records.record import encode
from kerolox.message.records.summary import peek
from kerolox.runtime.files import RealDisk
from kerolox.store.index import array_loader
from kerolox.store.index.array_loader import ArrayLoader
from kerolox.store.index.key_arrays import TEXT_SIZE_MAX, KeyArrays, key_arrays
from kerolox.store.index.key_hashes import RecordKeys, index_hash, index_keys
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.index.layout import IndexShape
from tests.store.disks import SimulatedDisk
from tests.store.index_cases import BEGIN, new_index

DIRECTORY = Path("/store/index")
# The hash of `t#abydncvw...` is of no matter; these have blanks and text where they are unusual.
texts = st.one_of(
    st.text("ab0#T", max_size=5).map(str.encode),
    st.sampled_from([b" ", b"a  b", b" a", b"a ", "größe€😀".encode(), b"\0"]),
)
records = st.tuples(st.sampled_from(["t", "orders", "thémes"]), texts, texts, texts)


def columns(rows: list[tuple[str, bytes, bytes, bytes]], step_millis: int = 700) -> RecordKeys:
    run = RecordKeys()
    for number, (topic, unique_key, keys, tag) in enumerate(rows):
        run.add(topic, (unique_key, keys, tag), 100 + 300 * number, BEGIN + step_millis * number)
    return run


def contents(index: KeyIndex, disk: SimulatedDisk) -> list[bytes | None]:
    index.flush().run()
    return [disk.read(path) for path in index.paths]


def put_together(run: RecordKeys, shape: IndexShape) -> list[bytes | None]:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    index = new_index(disk, DIRECTORY, shape)
    index.load()
    array_loader.ARRAYS.get(may_wait=True)
    index.add_all(run)
    return contents(index, disk)


def put_one_by_one(run: RecordKeys, shape: IndexShape) -> list[bytes | None]:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    index = new_index(disk, DIRECTORY, shape)
    index.load()
    for topic, unique_key, keys, tag, offset, timestamp in zip(
        run.topics, run.unique_keys, run.keys, run.tags, run.physical_offsets, run.store_timestamps, strict=True
    ):
        index.put(topic, index_keys(unique_key, keys, tag), offset, timestamp)
    return contents(index, disk)


@given(st.lists(records, min_size=16, max_size=60), st.sampled_from([(11, 20), (64, 4000)]), st.sampled_from([0, 700]))
def test_the_files_equal_those_of_records_put_one_by_one(
    rows: list[tuple[str, bytes, bytes, bytes]], shape: tuple[int, int], step_millis: int
) -> None:
    run = columns(rows, step_millis)
    expected = put_one_by_one(run, IndexShape(*shape))
    assert put_together(run, IndexShape(*shape)) == expected


def test_usual_records_around_an_unusual_one_are_hashed_together() -> None:
    rows = [("t", b"id%d" % number, b"k%d both" % number, b"red") for number in range(40)]
    rows[25] = ("t", b"id25", "größe".encode(), b"red")
    parts = list(key_arrays(columns(rows)))
    assert [(type(part), len(part)) for part in parts] == [(KeyArrays, 25 * 4), (RecordKeys, 1), (KeyArrays, 14 * 4)]


def test_records_without_keys_are_left_out_and_many_unusual_ones_are_hashed_one_by_one() -> None:
    assert list(key_arrays(columns([("t", b"", b"", b"")] * 1000))) == []
    rows = [("t", b"id%d" % number, b"a  b" if number % 2 else b"", b"") for number in range(1000)]
    assert [len(part) for part in key_arrays(columns(rows))] == [1000]
    rows = [("t", b"id%d" % number if number % 2 else b"", b"", b"") for number in range(1000)]
    (arrays,) = key_arrays(columns(rows))
    assert isinstance(arrays, KeyArrays)
    assert len(arrays) == 500


def test_the_hashes_are_those_of_java() -> None:
    rows = [(topic, b"id%d" % number, b"k%d" % number, b"red") for number in range(20) for topic in ("t", "ü")]
    run = columns(rows)
    (arrays,) = key_arrays(run)
    assert isinstance(arrays, KeyArrays)
    expected = [
        (index_hash(topic, key), offset, timestamp)
        for topic, unique_key, keys, tag, offset, timestamp in zip(
            run.topics, run.unique_keys, run.keys, run.tags, run.physical_offsets, run.store_timestamps, strict=True
        )
        for key in index_keys(unique_key, keys, tag)
    ]
    assert [arrays.key(number) for number in range(len(arrays))] == expected


def test_the_hash_of_integer_min_value_is_zero() -> None:
    """Math.abs of it is negative in Java; the text is that of the golden file."""
    (arrays,) = key_arrays(columns([("orders", b"abydncvw", b"", b"")] * 16))
    assert isinstance(arrays, KeyArrays)
    assert index_hash("orders", b"abydncvw") == 0
    assert {arrays.key(number)[0] for number in range(16)} == {0}


def test_much_text_is_divided_and_too_long_keys_are_hashed_alone() -> None:
    rows = [("t", b"%d" % number, b"k" * 9_000, b"") for number in range(20)]
    rows[3] = ("t", b"3", b"k" * TEXT_SIZE_MAX, b"")
    parts = list(key_arrays(columns(rows)))
    assert [len(part) for part in parts if isinstance(part, RecordKeys)] == [1]
    assert sum(len(part) // 2 for part in parts if isinstance(part, KeyArrays)) == 19
    shape = IndexShape(64, 4000)
    assert put_together(columns(rows), shape) == put_one_by_one(columns(rows), shape)


def test_a_damaged_slot_counts_as_empty(tmp_path: Path) -> None:
    shape = IndexShape(5, 4000)
    found = []
    for at_once in (False, True):
        disk = RealDisk()
        index = new_index(disk, tmp_path / f"{at_once}", shape)
        index.load()
        index.put("t", [b"first"], 1, BEGIN)
        index.flush().run()
        (path,) = index.paths
        index.close()
        # All slots refer to an entry that does not exist.
        content = bytearray(path.read_bytes())
        content[40:60] = (3_000).to_bytes(4) * 5
        path.write_bytes(content)
        again = new_index(disk, tmp_path / f"{at_once}", shape)
        again.load()
        run = columns([("t", b"id%d" % number, b"", b"red") for number in range(20)])
        if at_once:
            again.add_all(run)
        else:
            for number in range(20):
                again.put("t", [b"id%d" % number, b"T#red"], 100 + 300 * number, BEGIN + 700 * number)
        again.flush().run()
        again.close()
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_while_numpy_is_imported_keys_are_hashed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loading(ArrayLoader):
        def get(self, *, may_wait: bool = False) -> None:
            assert not may_wait

    monkeypatch.setattr("kerolox.store.index.key_index.ARRAYS", Loading())
    run = columns([("t", b"id%d" % number, b"k both", b"red") for number in range(300)])
    shape = IndexShape(64, 4000)
    assert put_together(run, shape) == put_one_by_one(run, shape)


def test_an_idle_broker_does_not_import_numpy() -> None:
    code = "import sys, kerolox.broker; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_records_of_rolled_back_transactions_alone_add_no_keys() -> None:
    """A run of the recovered log may have no other records."""
    index = new_index(SimulatedDisk(), DIRECTORY, IndexShape(64, 4000))
    record = encode(Message("t", b"body", to_bytes({"UNIQ_KEY": "id"}), sys_flag=sysflag.ROLLBACK))
    index.put_columns(Columns.of([peek(bytes(record))]))
    assert index.paths == []
