"""JSON tables: Java's layout, and atomic replacement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerolox.runtime.files import RealDisk
from kerolox.runtime.text import fastjson
from kerolox.store import tables
from kerolox.store.errors import StoreDamaged
from kerolox.store.tables import JsonTable, pretty
from kerolox.wire.bodies.topics import DataVersion, TopicConfig
from tests.store.disks import Stopped
from tests.store.fragile_disk import FragileDisk

GOLDEN = Path(__file__).parent.parent / "golden"
CONFIG = Path("/store/config")
PATH = CONFIG / "consumerOffset.json"
BACKUP = CONFIG / "consumerOffset.json.bak"
DAMAGED = CONFIG / "consumerOffset.json.damaged"


class Camel(msgspec.Struct, rename="camel"):
    """Base of table types, as in the broker."""


class OldVersion(Camel):
    counter: int
    timestamp: int


class Topics(Camel):
    data_version: DataVersion
    topic_config_table: dict[str, TopicConfig]


class OldTopics(Camel):
    data_version: OldVersion
    topic_config_table: dict[str, TopicConfig]


class Offsets(Camel):
    offset_table: dict[str, dict[int, int]]
    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] | None = None
    pull_offset_table: dict[str, dict[int, int]] | None = None


class Groups(Camel):
    subscription_group_table: dict[str, dict[str, Any]]
    data_version: dict[str, int]
    forbidden_table: dict[str, dict[str, int]] | None = None


class Filters(Camel):
    filter_data_by_topic: dict[str, dict[str, Any]]


class Delays(Camel):
    offset_table: dict[int, int]
    data_version: DataVersion | None = None


KINDS: dict[str, Any] = {
    tables.TOPICS: Topics,
    tables.CONSUMER_OFFSET: Offsets,
    tables.SUBSCRIPTION_GROUP: Groups,
    tables.CONSUMER_FILTER: Filters,
    tables.DELAY_OFFSET: Delays,
}


def golden(version: str, name: str) -> bytes:
    return (GOLDEN / f"config-{version}" / name).read_bytes()


def table(disk: FragileDisk) -> JsonTable[Offsets]:
    return JsonTable(disk, PATH, Offsets)


def content(offset: int) -> bytes:
    return pretty(Offsets({"orders@billing": {0: offset}}))


# Java's layout


@pytest.mark.parametrize("name", KINDS)
def test_tables_of_5_5_are_written_back_byte_for_byte(name: str) -> None:
    disk = FragileDisk({CONFIG / name: golden("5.5.0", name)})
    file = JsonTable(disk, CONFIG / name, KINDS[name])

    value = file.load()

    assert value is not None
    assert file.encode(value) == golden("5.5.0", name)


@pytest.mark.parametrize("name", [tables.TOPICS, tables.SUBSCRIPTION_GROUP, tables.CONSUMER_FILTER])
def test_tables_of_4_9_are_written_back_byte_for_byte(name: str) -> None:
    disk = FragileDisk({CONFIG / name: golden("4.9.7", name)})
    file = JsonTable(disk, CONFIG / name, OldTopics if name == tables.TOPICS else KINDS[name])

    value = file.load()

    assert value is not None
    assert file.encode(value) == golden("4.9.7", name)


def test_single_line_offsets_of_4_9_are_read() -> None:
    loaded = table(FragileDisk({PATH: golden("4.9.7", "consumerOffset.json")})).load()

    assert loaded is not None
    assert loaded.offset_table == {
        "%RETRY%keyed_consumer@keyed_consumer": {0: 0},
        "Keyed@keyed_consumer": {0: 50, 1: 40, 2: 50, 3: 41},
    }


def test_an_empty_table_of_4_9_is_read() -> None:
    loaded = JsonTable(FragileDisk({PATH: golden("4.9.7", "delayOffset.json")}), PATH, Delays).load()

    assert loaded == Delays({})


def test_a_large_table_with_unquoted_keys_is_read() -> None:
    value = Offsets({f"topic-{number}@group": {queue: queue * 7 for queue in range(16)} for number in range(5000)})
    disk = FragileDisk()
    table(disk).persist(value)

    assert len(disk.files[PATH]) > fastjson.DIALECT_SIZE_MAX
    assert table(disk).load() == value


def test_text_that_looks_like_a_key_is_not_quoted() -> None:
    value = Offsets({'{1:2,"3":4, 5 : 6}\\': {-1: 0}})
    disk = FragileDisk()

    table(disk).persist(value)

    assert table(disk).load() == value


def test_a_table_may_be_a_mapping_instead_of_a_struct() -> None:
    disk = FragileDisk()
    JsonTable(disk, PATH, dict[str, int]).persist({"a": 1})

    assert JsonTable(disk, PATH, dict[str, int]).load() == {"a": 1}


def test_empty_members_have_no_line_breaks_and_missing_ones_are_omitted() -> None:
    assert (
        pretty(Offsets({}, group_topic_map={"g": []}))
        == b'{\n\t"groupTopicMap":{\n\t\t"g":[]\n\t},\n\t"offsetTable":{}\n}'
    )


# File and backup


def test_a_missing_table_is_none() -> None:
    assert table(FragileDisk()).load() is None
    assert table(FragileDisk({PATH: b""})).load() is None


@pytest.mark.parametrize("main", [None, b"", b"{", b"[]", b'{"offsetTable":{"a":{0:tru', b"\xff\xfe", b"null"])
def test_the_backup_is_read_if_the_file_is_unreadable(main: bytes | None) -> None:
    files = {BACKUP: content(7)} | ({} if main is None else {PATH: main})

    assert table(FragileDisk(files)).load() == Offsets({"orders@billing": {0: 7}})


@pytest.mark.parametrize("backup", [None, b"", b"{"])
def test_a_damaged_file_without_a_backup_is_refused(backup: bytes | None) -> None:
    """Java would start with an empty table and overwrite the file."""
    files = {PATH: b'{"offsetTable":'} | ({} if backup is None else {BACKUP: backup})

    with pytest.raises(StoreDamaged, match=r"neither /store/config/consumerOffset\.json nor its backup"):
        table(FragileDisk(files)).load()


def test_a_damaged_backup_without_a_file_is_refused() -> None:
    with pytest.raises(StoreDamaged):
        table(FragileDisk({BACKUP: b"{"})).load()


# Crashes


@pytest.mark.parametrize("operations", range(9))
def test_a_stop_after_any_operation_leaves_old_or_new_content(operations: int) -> None:
    disk = FragileDisk({PATH: content(1), BACKUP: content(0)}, operations=operations)
    file = table(disk)
    file.load()

    try:
        file.save(content(2))
        assert operations == 8
    except Stopped:
        pass

    for left in (disk.files, *disk.left_by_power_cut()):
        assert table(FragileDisk(left)).load() in (decoded(1), decoded(2))


@pytest.mark.parametrize("operations", range(11))
@pytest.mark.parametrize("main", [b"", b"{", None], ids=["empty", "damaged", "missing"])
def test_a_damaged_file_never_becomes_the_backup(main: bytes | None, operations: int) -> None:
    """Otherwise a stop before the rename would leave nothing readable."""
    disk = FragileDisk({BACKUP: content(1)} | ({} if main is None else {PATH: main}), operations=operations)
    file = table(disk)
    assert file.load() == decoded(1)

    try:
        file.save(content(2))
        file.save(content(3))
    except Stopped:
        pass

    for left in (disk.files, *disk.left_by_power_cut()):
        assert table(FragileDisk(left)).load() in (decoded(1), decoded(2), decoded(3))
        if DAMAGED in left:
            assert left[DAMAGED] == main


def test_persisted_content_is_durable() -> None:
    disk = FragileDisk({PATH: content(1)})

    table(disk).persist(decoded(2))

    for left in disk.left_by_power_cut():
        assert (left[PATH], left[BACKUP]) == (content(2), content(1))


def test_unchanged_content_is_not_written() -> None:
    disk = FragileDisk()
    file = table(disk)
    file.persist(decoded(1))
    before = list(disk.log)

    file.persist(decoded(1))

    assert disk.log == before


def test_the_directory_is_created_on_a_real_disk(tmp_path: Path) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    JsonTable(RealDisk(), path, Offsets).persist(decoded(5))

    assert JsonTable(RealDisk(), path, Offsets).load() == decoded(5)


def decoded(offset: int) -> Offsets:
    return Offsets({"orders@billing": {0: offset}})
