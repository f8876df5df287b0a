"""Layout of a key index file (IndexHeader, IndexFile).

header    int64  time of the first entry        int64  time of the last
          int64  its physical offset            int64  its physical offset
          int32  slots in use                   int32  number of the next entry; the first is 1
slots     int32  number of the newest entry in this slot; 0 if there is none
entries   int32  hash of `topic#key`            int64  physical offset
          int32  seconds after the first entry  int32  number of the next older entry of this slot
"""

import struct
from dataclasses import astuple, dataclass
from typing import Self

HEADER = struct.Struct(">qqqqii")
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
# The most that fits into an entry.
SECONDS_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class IndexShape:
    """Number of slots and entries of a file (maxHashSlotNum, maxIndexNum); entry 0 is never used."""

    slots: int = 5_000_000
    entries: int = 20_000_000

    @property
    def entries_position(self) -> int:
        return HEADER.size + self.slots * SLOT.size

    @property
    def file_size(self) -> int:
        return self.entries_position + self.entries * ENTRY.size


@dataclass(slots=True)
class IndexHeader:
    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    slots_used: int = 0
    next_entry: int = 1

    @classmethod
    def decode(cls, data: bytes) -> Self:
        header = cls(*HEADER.unpack(data))
        # 0 in a file that Java created and has not used yet.
        header.next_entry = header.next_entry or 1
        return header

    def encode(self) -> bytes:
        return HEADER.pack(*astuple(self))

    @property
    def is_empty(self) -> bool:
        return self.next_entry <= 1
