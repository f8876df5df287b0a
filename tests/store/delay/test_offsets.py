"""How far each delay level has come, in Java's file."""

from pathlib import Path

import pytest

from kerolox.errors import ProtocolError
from kerolox.runtime.clock import ManualClock
from kerolox.store.delay.offsets import DelayOffsets
from kerolox.store.errors import StoreDamaged
from tests.store.fragile_disk import ROOT, FragileDisk

PATH = ROOT / "config" / "delayOffset.json"
GOLDEN = Path(__file__).parents[2] / "golden"


def offsets(disk: FragileDisk) -> DelayOffsets:
    made = DelayOffsets(ROOT, ManualClock(1000), disk)
    made.load()
    return made


@pytest.mark.parametrize(("version", "offset"), [("4.9.7", 0), ("5.5.0", 0)])
async def test_the_files_of_java_are_read_and_written_back(version: str, offset: int) -> None:
    content = (GOLDEN / f"config-{version}" / "delayOffset.json").read_bytes()
    disk = FragileDisk({PATH: content})
    made = offsets(disk)

    await made.persist()

    assert made.get(18) == offset
    if version == "5.5.0":
        assert disk.files[PATH] == content
    else:
        assert b'"dataVersion":' in disk.files[PATH]


async def test_a_change_is_written_under_a_new_version() -> None:
    disk = FragileDisk({PATH: b'{"dataVersion":{"counter":4,"stateVersion":2,"timestamp":5},"offsetTable":{3:7}}'})
    made = offsets(disk)
    made.reach(1, 9)
    made.reach(3, 7)

    await made.persist()
    await made.persist()

    assert disk.files[PATH].decode() == (
        '{\n\t"dataVersion":{\n\t\t"counter":5,\n\t\t"stateVersion":2,\n\t\t"timestamp":1000\n\t},'
        '\n\t"offsetTable":{\n\t\t1:9,\n\t\t3:7\n\t}\n}'
    )
    assert offsets(disk).get(1) == 9


async def test_what_has_not_changed_is_not_written_again() -> None:
    disk = FragileDisk()
    made = offsets(disk)
    made.reach(2, 1)
    await made.persist()
    disk.log.clear()

    made.reach(2, 1)
    await made.persist()

    assert disk.log == []


def test_the_answer_to_a_slave_can_be_taken_over() -> None:
    master, slave = offsets(FragileDisk()), offsets(FragileDisk())
    master.reach(2, 30)
    slave.reach(5, 1)

    content = master.encode()
    slave.replace(content)

    assert content == b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1000},"offsetTable":{2:30}}'
    assert (slave.get(2), slave.get(5)) == (30, 0)
    assert slave.encode() == content
    slave.replace(b'{"offsetTable":{1:2}}')
    assert slave.get(1) == 2


def test_an_answer_that_makes_no_sense_changes_nothing() -> None:
    made = offsets(FragileDisk())
    made.reach(2, 30)

    with pytest.raises(ProtocolError):
        made.replace(b'{"offsetTable":{"one":2}}')

    assert made.get(2) == 30


def test_a_file_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(StoreDamaged):
        offsets(FragileDisk({PATH: b"{"}))
