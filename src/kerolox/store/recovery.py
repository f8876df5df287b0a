"""What is found when a store is opened, and how log, queues and index are brought to agree."""

import contextlib
import logging
import struct
from dataclasses import dataclass, field
from functools import partial

from kerolox.message.peek import Peek
from kerolox.store.checkpoint import Checkpoint
from kerolox.store.dispatcher import Dispatcher
from kerolox.store.keys.key_index import KeyIndex
from kerolox.store.log.scan import Damage, Scan
from kerolox.store.log.segments import Segments
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.queue.queues import Queues
from kerolox.store.seal import FILES_READ, Mark, Marks, Seal, decode

log = logging.getLogger(__name__)

# The size of a record, and the queue offset that it says it has.
_SIZE_AND_QUEUE_OFFSET = struct.Struct(">i16xq")
# So many entries may wait in memory.
_RECORDS_BETWEEN_FLUSHES = 100_000
_ZEROS = bytes(64 * 1024)


@dataclass(slots=True)
class Recovered:
    """The end of the log, and what was wrong with it."""

    end_offset: int
    # Where reading began.
    start_offset: int = 0
    # Those that were found good, one by one or under a seal.
    records: int = 0
    # Under the seal, and therefore not read one by one.
    sealed: int = 0
    # Between good records: neither served nor cut.
    damages: list[Damage] = field(default_factory=list)
    # After the last good record: cut.
    torn: Damage | None = None
    # Why the index cannot follow for now, as when the disk has no room for another file of it.
    lag: OSError | None = None


def recover(
    segments: Segments,
    dispatcher: Dispatcher,
    queues: Queues,
    index: KeyIndex | None,
    checkpoint: Checkpoint,
    *,
    is_clean: bool,
    is_index_whole: bool = True,
    marks: Marks | None = None,
) -> Recovered:
    """Reads the end of the log, dispatches what queues and index lack, and cuts what they have too much."""
    marks = marks or Marks(segments.segment_size)
    recovered = Recovered(segments.first_offset)
    start = _start(segments, checkpoint, is_clean=is_clean)
    seal = decode(checkpoint.seal) if is_index_whole else None
    sealed = _unbroken(seal, segments, start, index, checkpoint) if seal is not None else []
    if seal is not None and sealed and not is_clean:
        _distrust(queues, segments, seal.dispatched_offset)
    if seal is not None and sealed and sum(queue.max_offset for queue in queues) == seal.entries:
        start = seal.dispatched_offset
        marks.load(seal.marks)
        recovered.sealed = sum(mark.records for mark in sealed)
        dispatcher.timestamp = checkpoint.queues_timestamp
    else:
        if index is not None and not is_index_whole:
            start = min(start, segments.start_of(max(index.end_physical_offset, segments.first_offset)))
        if is_clean and not len(queues):
            # Somebody has removed them, so that they are made again.
            start = segments.first_offset
        if not is_clean:
            _distrust(queues, segments, start)
    recovered.start_offset = start
    scan = Scan(segments, marks)
    lag_offset = 0
    flushed = 0
    for run in scan.columns(start):
        if recovered.lag is None:
            try:
                dispatcher.dispatch_columns(run)
            except OSError as error:
                lag_offset = run.physical_offsets[0]
                log.error("the key index cannot follow the commit log at %d: %s", lag_offset, error)
                recovered.lag = error
        if recovered.lag is not None:
            # The index takes records in their order, and so none after one that it lacks. If it is a queue that cannot
            # follow, this fails too: without its entries there is nothing to serve.
            for record in run.peeks():
                dispatcher.enter(record)
        recovered.records += len(run)
        if recovered.records - flushed >= _RECORDS_BETWEEN_FLUSHES:
            flushed = recovered.records
            for queue in queues:
                # Those for which the disk has no room stay in memory until it has.
                with contextlib.suppress(OSError):
                    queue.flush()
    recovered.records += recovered.sealed
    recovered.end_offset = scan.end_offset
    recovered.damages, recovered.torn = scan.damages, scan.torn
    if scan.torn is not None:
        _cut(segments, scan.torn)
    for queue in queues:
        queue.cut(recovered.end_offset)
        queue.delete_before(segments.first_offset)
    if index is not None and index.end_physical_offset >= recovered.end_offset:
        index.cut(recovered.end_offset)
    dispatcher.damages = {damage.offset: damage for damage in recovered.damages}
    dispatcher.load(recovered.end_offset if recovered.lag is None else lag_offset)
    return recovered


def _unbroken(seal: Seal, segments: Segments, start: int, index: KeyIndex | None, checkpoint: Checkpoint) -> list[Mark]:
    """Returns the marks of what follows `start` if all that the seal speaks of is there as it was.

    The times in the checkpoint are others when somebody else has written to the store since. The checksums tell whether
    the log is the same, so that nothing that was flipped, cut or written over since is taken for good.
    """
    if seal.timestamps != checkpoint.timestamps:
        return []
    if index is not None and not 0 <= seal.index_offset <= index.sealed_offset:
        return []
    return seal.unbroken(segments, start)


def _distrust(queues: Queues, segments: Segments, start: int) -> None:
    """What was written last may have reached the disk in any order: it is made again from the log."""
    for queue in queues:
        queue.cut(start, partial(_is_known, segments))


def _start(segments: Segments, checkpoint: Checkpoint, *, is_clean: bool) -> int:
    """Returns where reading must begin: before it everything is durable, in the log and in the queues."""
    starts = segments.starts
    if is_clean:
        return starts[-FILES_READ:][0] if starts else 0
    for start in reversed(starts):
        first = Scan(segments).record_at(start)
        if isinstance(first, Peek) and 0 < first.store_timestamp <= checkpoint.min_timestamp:
            return start
    return segments.first_offset


def _is_known(segments: Segments, queue_offset: int, entry: Entry) -> bool:
    """Whether the record of which an entry tells is there, or was before its file was deleted."""
    if entry.physical_offset < segments.first_offset:
        return True
    head = segments.read(entry.physical_offset, _SIZE_AND_QUEUE_OFFSET.size)
    if len(head) < _SIZE_AND_QUEUE_OFFSET.size:
        return False
    return _SIZE_AND_QUEUE_OFFSET.unpack(head) == (entry.size, queue_offset)


def _cut(segments: Segments, torn: Damage) -> None:
    """Ends the log where its last good record ends, so that whoever opens it next finds the same end."""
    log.warning("cut the commit log at %d: %s, up to %d", torn.offset, torn.reason, torn.end_offset)
    segments.cut(segments.start_of(torn.offset) + segments.segment_size)
    end = min(torn.end_offset, torn.offset + segments.room_after(torn.offset))
    for offset in range(torn.offset, end, len(_ZEROS)):
        segments.write(offset, _ZEROS[: end - offset])
    segments.sync(torn.offset, end)
