"""The progress of delay levels in Java's file."""

from pathlib import Path

import pytest

from kerolox.errors import ProtocolError
from kerolox.runtime.clock import ManualClock
from kerolox.store.delay.delay_offsets import DelayOffsets
from kerolox.store.errors import StoreDamaged
from tests.store.fragile_disk import ROOT, FragileDisk

PATH = ROOT / "config" / "delayOffset.json"
GOLDEN = Path(__file__).parents[2] / "golden"


def offsets(disk: FragileDisk) -> DelayOffsets:
    delay_offsets = DelayOffsets(ROOT, ManualClock(1000), disk)
    delay_offsets.load()
    return delay_offsets


@pytest.mark.parametrize(("version", "offset"), [("4.9.7", 0), ("5.5.0", 0)])
async def test_the_files_of_java_are_read_and_written_back(version: str, offset: int) -> None:
    content = (GOLDEN / f"config-{version}" / "delayOffset.json").read_bytes()
    disk = FragileDisk({PATH: content})
    delay_offsets = offsets(disk)

    await delay_offsets.persist()

    assert delay_offsets.get(18) == offset
    if version == "5.5.0":
        assert disk.files[PATH] == content
    else:
        assert b'"dataVersion":' in disk.files[PATH]


async def test_a_change_is_written_under_a_new_version() -> None:
    disk = FragileDisk({PATH: b'{"dataVersion":{"counter":4,"stateVersion":2,"timestamp":5},"offsetTable":{3:7}}'})
    delay_offsets = offsets(disk)
    delay_offsets.set_offset(1, 9)
    delay_offsets.set_offset(3, 7)

    await delay_offsets.persist()
    await delay_offsets.persist()

    assert disk.files[PATH].decode() == (
        '{\n\t"dataVersion":{\n\t\t"counter":5,\n\t\t"stateVersion":2,\n\t\t"timestamp":1000\n\t},'
        '\n\t"offsetTable":{\n\t\t1:9,\n\t\t3:7\n\t}\n}'
    )
    assert offsets(disk).get(1) == 9


async def test_unchanged_offsets_are_not_written() -> None:
    disk = FragileDisk()
    delay_offsets = offsets(disk)
    delay_offsets.set_offset(2, 1)
    await delay_offsets.persist()
    disk.log.clear()

    delay_offsets.set_offset(2, 1)
    await delay_offsets.persist()

    assert disk.log == []


def test_a_slave_can_load_the_response_of_its_master() -> None:
    master, slave = offsets(FragileDisk()), offsets(FragileDisk())
    master.set_offset(2, 30)
    slave.set_offset(5, 1)

    content = master.encode()
    slave.replace(content)

    assert content == b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1000},"offsetTable":{2:30}}'
    assert (slave.get(2), slave.get(5)) == (30, 0)
    assert slave.encode() == content
    slave.replace(b'{"offsetTable":{1:2}}')
    assert slave.get(1) == 2


def test_a_malformed_response_changes_nothing() -> None:
    delay_offsets = offsets(FragileDisk())
    delay_offsets.set_offset(2, 30)

    with pytest.raises(ProtocolError):
        delay_offsets.replace(b'{"offsetTable":{"one":2}}')

    assert delay_offsets.get(2) == 30


def test_an_unreadable_file_is_an_error_and_not_empty() -> None:
    with pytest.raises(StoreDamaged):
        offsets(FragileDisk({PATH: b"{"}))
