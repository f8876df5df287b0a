"""Cuts the end off a commit log, so that no crash brings it back (truncateDirtyFiles).

A replica whose log differs from its master's log cuts it where both last agree. Resetting positions in memory, as
RocketMQ does, is not enough: the old bytes are valid records, and a crash before they are overwritten revives them.

A truncation is therefore requested first, in a file of its own, and done by the next start of the store, which repeats
it after a crash until it is complete:

1. The checkpoint is lowered, so that recovery reads the log from the file of the cut on, and trusts no queue or index
   entry of a record after it. The file `derived` and the timer's checkpoint are removed, since both describe more log.
2. Later files of the log are removed, and the rest of the file with the cut is overwritten with zeros. Zeros at the
   cut alone would not do: where new records of equal size are written, the old ones after them fit again.
3. Recovery makes queues, index and timers agree with the shorter log.
4. The request is removed.
"""

import contextlib
import logging
from pathlib import Path

from kerolox.message.records.summary import RecordSummary
from kerolox.runtime.files import Disk, write_whole
from kerolox.store.errors import StoreDamaged
from kerolox.store.log.scan import Scan
from kerolox.store.log.segments import Segments
from kerolox.store.recovery.checkpoint import Checkpoint

log = logging.getLogger(__name__)

FILE_NAME = "truncateTo"
_ZEROS = bytes(64 * 1024)


class Truncation:
    """The requested truncation of a store, if there is one."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path

    def request(self, offset: int) -> None:
        """Make the request durable; the next start of the store cuts the log at this physical offset."""
        write_whole(self._disk, self._path, b"%d\n" % offset)

    def load(self) -> int | None:
        """Return the requested offset; None if no truncation is pending. StoreDamaged if the file is unreadable."""
        content = self._disk.read(self._path)
        if content is None:
            return None
        digits = content.removesuffix(b"\n")
        if not digits.isdigit() or not content.endswith(b"\n"):
            raise StoreDamaged(f"{self._path} holds {content[:40]!r} instead of the offset at which to cut the log")
        return int(digits)

    def finish(self) -> None:
        self._disk.remove(self._path)
        self._disk.sync(self._path.parent)


def is_boundary(segments: Segments, offset: int, end_offset: int) -> bool:
    """Whether a record, a file or nothing begins at `offset` of a log that ends at `end_offset`."""
    if offset == end_offset or offset % segments.segment_size == 0:
        return segments.first_offset <= offset <= end_offset
    return segments.first_offset <= offset < end_offset and not isinstance(Scan(segments).record_at(offset), str)


def lower_checkpoint(checkpoint: Checkpoint, segments: Segments, offset: int) -> None:
    """Make recovery read the log from the file with the last byte before `offset` on; durable."""
    start = max(segments.first_offset, segments.start_of(offset - 1))
    first = Scan(segments).record_at(start) if start < segments.end_offset else None
    timestamp = first.store_timestamp if isinstance(first, RecordSummary) else 0
    checkpoint.lower(timestamp, offset)
    checkpoint.flush()


def cut_log(segments: Segments, offset: int, end_offset: int | None = None) -> None:
    """Remove the log after `offset` durably: later files, and the written bytes of its own file.

    `end_offset` is the end of those bytes, if it is known.
    """
    start = segments.start_of(offset)
    segments.cut(start + segments.segment_size)
    if start not in segments.starts:
        return
    end = segments.data_end(start) if end_offset is None else min(end_offset, start + segments.segment_size)
    for at in range(offset, end, len(_ZEROS)):
        segments.write(at, _ZEROS[: end - at])
    segments.sync(offset, max(offset, end))


def remove_descriptions(disk: Disk, *paths: Path) -> None:
    """Remove files that describe more of the log than remains; their owners rebuild what they need."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(path)
            disk.sync(path.parent)
