"""Recovers a store: reads the end of the log and makes queues and index agree with it."""

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from kerolox.message.records import layout
from kerolox.message.records.summary import RecordSummary
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.log.scan import Damage, Scan
from kerolox.store.log.segments import Segments
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.queue.queues import Queues
from kerolox.store.recovery.checkpoint import Checkpoint
from kerolox.store.recovery.derived_files import DerivedData
from kerolox.store.recovery.log_checksums import FILES_READ, FileChecksum, FileChecksums, LogChecksums, decode
from kerolox.store.recovery.truncation import cut_log

log = logging.getLogger(__name__)

# Size and queue offset in the header of a record.
_SIZE_AND_QUEUE_OFFSET = layout.head(("size", "queue_offset"))
# Bounds the queue entries that are held in memory.
_RECORDS_BETWEEN_FLUSHES = 100_000
# Bytes of the log between two progress messages.
_PROGRESS_SIZE = 1024 * 1024 * 1024
_NONE: Mapping[tuple[str, int], str] = {}


@dataclass(slots=True)
class Recovered:
    """End of the log, and what was damaged."""

    end_offset: int
    # Reading began at this physical offset.
    start_offset: int = 0
    # Good records: read one by one, or covered by checksums.
    records: int = 0
    # Records covered by checksums, and therefore not read one by one.
    checksummed: int = 0
    # Damaged ranges between good records: neither served nor truncated.
    damages: list[Damage] = field(default_factory=list)
    # Damaged end of the log after the last good record: truncated.
    torn: Damage | None = None
    # Why the index does not follow the log at present, as when the disk has no room for another index file.
    index_failure: OSError | None = None
    # Physical offset of the first record that the index lacks then.
    index_failure_offset: int = 0


def recover(
    segments: Segments,
    derived: DerivedData,
    checksums: FileChecksums,
    *,
    is_clean: bool,
    is_index_whole: bool = True,
    damaged: Mapping[tuple[str, int], str] = _NONE,
    are_ends_known: bool = False,
    is_copy: bool = False,
) -> Recovered:
    """Read the end of the log, dispatch what queues and index lack, and truncate what they have beyond its end.

    `damaged` queues are rebuilt, which reads the whole log; so does finding out that other queues lack entries of
    earlier records. With `are_ends_known` every queue that lost its end is in `damaged`. `checksums` are loaded with
    those of the log that was read.

    After a power cut, damaged ranges may lie between records that were written later. They are kept, except in a copy
    of another broker's log (`is_copy`): it is truncated at the first of them, and copies the rest again.
    """
    dispatcher, queues, index, checkpoint = derived.dispatcher, derived.queues, derived.index, derived.checkpoint
    recovered = Recovered(segments.first_offset)
    start = _start(segments, checkpoint, is_clean=is_clean)
    saved = decode(checkpoint.log_checksums)
    durable_offset = segments.first_offset
    if saved is not None and saved.timestamps == checkpoint.timestamps:
        # Later files may hold older timestamps, if the clock was set back.
        start = min(start, max(segments.first_offset, segments.start_of(saved.dispatched_offset)))
        durable_offset = saved.dispatched_offset
    if damaged or not is_index_whole:
        saved = None
    verified = _verified_checksums(saved, segments, start, index, checkpoint) if saved is not None else []
    if saved is not None and verified and not is_clean:
        _cut_untrusted(queues, segments, saved.dispatched_offset)
    if saved is not None and verified and sum(queue.max_offset for queue in queues) == saved.entries:
        start = saved.dispatched_offset
        checksums.load(saved.checksums)
        recovered.checksummed = sum(checksum.records for checksum in verified)
        dispatcher.timestamp = checkpoint.queues_timestamp
    else:
        if index is not None and not is_index_whole:
            start = min(start, segments.start_of(max(index.end_physical_offset, segments.first_offset)))
        if is_clean and verified and not are_ends_known:
            log.warning("the consume queues differ from the last clean stop; reading the whole commit log")
            start = segments.first_offset
        if damaged or (is_clean and not len(queues)):
            start = segments.first_offset
        if not is_clean:
            _cut_untrusted(queues, segments, start)
    reset = dict(damaged)
    _reset(queues, reset)
    recovered.start_offset = start
    scan = _dispatch(segments, derived, checksums, recovered, start)
    incomplete = _incomplete(queues, start)
    if incomplete and start > segments.first_offset:
        # Entries of records before `start` are missing.
        _reset(queues, incomplete)
        reset |= incomplete
        checksums.clear()
        recovered.records = recovered.checksummed = 0
        recovered.start_offset = segments.first_offset
        scan = _dispatch(segments, derived, checksums, recovered, segments.first_offset)
    queues.backlog.gaps.clear()
    for topic, queue_id in reset:
        queue = queues.get(topic, queue_id)
        count = 0 if queue is None else queue.max_offset - queue.min_offset
        log.warning("consume queue %s/%d was rebuilt from the commit log with %d entries", topic, queue_id, count)
    recovered.records += recovered.checksummed
    recovered.end_offset = scan.end_offset
    recovered.damages, recovered.torn = scan.damages, scan.torn
    if is_copy and not is_clean:
        holes = [damage for damage in scan.damages if damage.offset >= durable_offset]
        if holes:
            _end_before(holes[0], segments, recovered)
            checksums.clear()
            # That of a record which is no longer in the log; an older one only makes the next start read more.
            dispatcher.timestamp = min(dispatcher.timestamp, checkpoint.min_timestamp)
    if recovered.torn is not None:
        _truncate(segments, recovered.torn)
    for queue in queues:
        queue.cut(recovered.end_offset)
        queue.delete_before(segments.first_offset)
    if index is not None and index.end_physical_offset >= recovered.end_offset:
        index.cut(recovered.end_offset)
    dispatcher.load(
        recovered.end_offset if recovered.index_failure is None else recovered.index_failure_offset, recovered.damages
    )
    return recovered


def _dispatch(
    segments: Segments, derived: DerivedData, checksums: FileChecksums, recovered: Recovered, start: int
) -> Scan:
    """Dispatch the records from `start` on that queues and index lack."""
    dispatcher, queues = derived.dispatcher, derived.queues
    scan = Scan(segments, checksums)
    flushed, reported = 0, start
    recovered.index_failure, recovered.index_failure_offset = None, 0
    for run in scan.columns(start):
        if recovered.index_failure is None:
            try:
                dispatcher.dispatch_columns(run)
            except OSError as error:
                recovered.index_failure_offset = run.physical_offsets[0]
                log.error("the key index cannot follow the commit log at %d: %s", recovered.index_failure_offset, error)
                recovered.index_failure = error
        if recovered.index_failure is not None:
            # The index takes records in log order, and so none after one that it lacks. If a queue is what cannot
            # follow, this raises again: without its entries the store cannot serve.
            for record in run.summaries():
                dispatcher.append_entry(record)
        recovered.records += len(run)
        if run.end_offset - reported >= _PROGRESS_SIZE:
            reported = run.end_offset
            read_size, total_size = reported - start, segments.end_offset - start
            log.info("read %d of %d MiB of the commit log", read_size >> 20, total_size >> 20)
        if recovered.records - flushed >= _RECORDS_BETWEEN_FLUSHES:
            flushed = recovered.records
            for queue in queues:
                # Entries for which the disk has no room stay in memory.
                with contextlib.suppress(OSError):
                    queue.flush()
    return scan


def _reset(queues: Queues, damaged: Mapping[tuple[str, int], str]) -> None:
    """Empty damaged queues, so that all their entries are dispatched again."""
    for (topic, queue_id), complaint in damaged.items():
        log.warning("consume queue %s/%d: %s; rebuilding it from the commit log", topic, queue_id, complaint)
        queue = queues.get(topic, queue_id)
        if queue is not None:
            queue.reset()


def _incomplete(queues: Queues, start: int) -> dict[tuple[str, int], str]:
    """Return the queues that lack entries of records before `start`, where the log was not read."""
    gaps = queues.backlog.gaps
    return {
        key: f"entries are missing of records after {gaps[queue]}"
        for key, queue in queues.items()
        if queue in gaps and gaps[queue] < start
    }


def _verified_checksums(
    saved: LogChecksums, segments: Segments, start: int, index: KeyIndex | None, checkpoint: Checkpoint
) -> list[FileChecksum]:
    """Return the checksums of the files from `start` on if log and index still match the saved ones.

    Other timestamps in the checkpoint mean that Java has written to the store since. The checksums detect bytes that
    were flipped, truncated or overwritten.
    """
    if saved.timestamps != checkpoint.timestamps:
        return []
    if index is not None and not 0 <= saved.index_offset <= index.indexed_end_offset:
        return []
    return saved.verified(segments, start)


def _cut_untrusted(queues: Queues, segments: Segments, start: int) -> None:
    """Cut queue entries from `start` on: after a crash they may have reached the disk in any order."""
    for queue in queues:
        queue.cut(start, partial(_is_known, segments))


def _start(segments: Segments, checkpoint: Checkpoint, *, is_clean: bool) -> int:
    """Return where reading must begin: everything before it is durable, in the log and in the queues."""
    starts = segments.starts
    if is_clean:
        return starts[-FILES_READ:][0] if starts else 0
    for start in reversed(starts):
        first = Scan(segments).record_at(start)
        if isinstance(first, RecordSummary) and 0 < first.store_timestamp <= checkpoint.min_timestamp:
            return start
    return segments.first_offset


def _is_known(segments: Segments, queue_offset: int, entry: Entry) -> bool:
    """Whether the log has the record of an entry, or had it before its file was deleted."""
    if entry.physical_offset < segments.first_offset:
        return True
    head = segments.read(entry.physical_offset, _SIZE_AND_QUEUE_OFFSET.size)
    if len(head) < _SIZE_AND_QUEUE_OFFSET.size:
        return False
    return _SIZE_AND_QUEUE_OFFSET.unpack(head) == (entry.size, queue_offset)


def _end_before(hole: Damage, segments: Segments, recovered: Recovered) -> None:
    """Let the log end at a damaged range instead of after it."""
    recovered.end_offset = hole.offset
    recovered.damages = [damage for damage in recovered.damages if damage.offset < hole.offset]
    recovered.torn = Damage(hole.offset, segments.data_end(segments.start_of(hole.offset)), hole.reason)


def _truncate(segments: Segments, torn: Damage) -> None:
    """Truncate the log after its last good record and zero the rest, so that every start finds the same end."""
    log.warning("truncated the commit log at %d: %s, up to %d", torn.offset, torn.reason, torn.end_offset)
    cut_log(segments, torn.offset, torn.end_offset)
