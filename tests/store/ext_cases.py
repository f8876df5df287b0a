"""ConsumeQueueExt units that are written here and by Java, so that the files can be compared."""

from __future__ import annotations

from kerolox.store.queue.queue_ext import ExtUnit

# Files with room for four or five units: some end with an end mark, and one has room for just that mark.
GOLDEN_SEGMENT_SIZE = 128
GOLDEN_UNITS = (
    ExtUnit(0, 1_794_780_000_000),
    ExtUnit(-1, 1_794_780_000_001, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
    ExtUnit(2**31 - 1, 0, b"\xff"),
    ExtUnit(-(2**31), 2**63 - 1, bytes(35)),
    ExtUnit(1_794_780_000_000, -1, bytes(range(100))),
    *(ExtUnit(number, number, b"%08d" % number) for number in range(9)),
    ExtUnit(7, 7, bytes(104)),
    ExtUnit(8, 8),
)


def java_lines(units: tuple[ExtUnit, ...] = GOLDEN_UNITS) -> list[str]:
    """Return the input lines with which QueueExt.java writes the same units."""
    return [f"{unit.tags_code} {unit.store_timestamp} {unit.bit_map.hex()}".strip() for unit in units]
