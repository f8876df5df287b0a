"""From a message as a producer sent it to what the commit log appends."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kerolox.message import even, names, sysflag
from kerolox.message.alike import Varying
from kerolox.message.alike import to_records as to_alike_records
from kerolox.message.batch import PART_SIZE_MIN, is_short, to_records
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.peek import KEYS_MARK, TAGS_MARK, UNIQ_KEY_MARK
from kerolox.message.plain import Found, PlainProperties, Traits
from kerolox.message.properties import find, mark, outline, pick
from kerolox.message.record import BODY_SIZE_MAX, Row, check_properties, encode, encode_runs
from kerolox.message.tags import tags_code
from kerolox.store.delay.delays import DELAY_MARK, SCHEDULE_TOPIC, java_int
from kerolox.store.keys.key_index import index_keys, tag_key
from kerolox.store.log.commit_log import Draft, Parts

# Returns the message that is stored instead of the one that was sent: the same, if it is none of its business.
Diversion: TypeAlias = Callable[[Message], Message]

_INNER_NUM_MARK = mark(names.INNER_NUM)
_WAIT_MARK = mark(names.WAIT)
# Where the records of a draft of one begin.
_FIRST = (0,)
# What others than a draft have to do with: batches in one record, transactions, messages that were popped.
_UNUSUAL = (_INNER_NUM_MARK, mark(names.TRAN_MSG), mark(names.POP_CK))
# How names begin, as the outline of properties has them.
_WAIT, _TAGS, _KEYS, _INNER = (name[:4] for name in (_WAIT_MARK, TAGS_MARK, KEYS_MARK, _INNER_NUM_MARK))


class Drafts:
    """Makes drafts; MessageIllegal for what cannot be stored, or not yet, as the original has it.

    Each diversion sees what the one before returned. That of the delay levels comes before one for timers, for a
    level decides over a time. What waits and is put back when it is due is not to come this way again.
    """

    def __init__(
        self,
        diversions: Mapping[bytes, Diversion] | None = None,
        *,
        body_size_max: int = BODY_SIZE_MAX,
        parts_max: int = sys.maxsize,
        keys_max: int = sys.maxsize,
    ) -> None:
        # Each by a property that all messages have that it is about; looked for is how that begins.
        self._diversions = tuple((name[:4], divert) for name, divert in (diversions or {}).items())
        self.body_size_max = body_size_max
        # Of a batch: its messages, and the keys of all of them. What is stored at once is shown at once.
        self._parts_max = parts_max
        self._keys_max = keys_max
        # Of messages that are stored as they come.
        self.properties = PlainProperties((*(diversions or {}), *_UNUSUAL))

    def one(self, message: Message) -> Draft:
        """Returns the draft of a message. Topic and queue may be others than the message's, which stays as it is."""
        check_properties(message.properties)
        return self.outlined(message, outline(message.properties))

    def outlined(self, message: Message, outlined: dict[bytes, bytes]) -> Draft:
        """The same, by the outline of the message's properties; it may be of fewer than all."""
        sys_flag, properties = message.sys_flag, message.properties
        if sys_flag & sysflag.INNER_BATCH or _INNER in outlined:
            _check_inner_batch(message)
        # Of the transaction types, PREPARED and ROLLBACK have this bit; the plain message is to cost next to nothing.
        if sys_flag & sysflag.PREPARED:
            records = encode(message, self.body_size_max)
            return Draft(message.topic, message.queue_id, records, (0,), False, _is_awaited(properties))
        is_awaited = _WAIT not in outlined or pick(outlined, properties, _WAIT_MARK) != b"false"
        for marked, divert in self._diversions:
            if marked in outlined:
                message = divert(message)
        draft = Draft(message.topic, message.queue_id, encode(message, self.body_size_max), (0,), True, is_awaited)
        if message.topic != SCHEDULE_TOPIC:
            unique_key = pick(outlined, properties, UNIQ_KEY_MARK)
            if _TAGS in outlined or _KEYS in outlined:
                tag, keys = pick(outlined, properties, TAGS_MARK), pick(outlined, properties, KEYS_MARK)
                draft.keys = index_keys(unique_key, keys, tag)
                draft.tags_code = tags_code(tag)
            else:
                draft.keys = [unique_key] if unique_key else []
        return draft

    def plain(
        self, topic: str, store_host: bytes, rows: Sequence[Row], found: Sequence[Found], size_max: int
    ) -> list[Draft]:
        """Returns drafts of messages whose bodies are not too large, by what was found in their properties.

        Each is of as many of them as have room in `size_max` bytes.
        """
        drafts = []
        first = 0
        for records, starts in encode_runs(topic, store_host, rows, size_max):
            end = first + len(starts)
            draft = Draft(topic, rows[first][0], records, starts)
            if len(starts) == 1:
                # Most turns bring one message if few are sent.
                unique_key, more, traits = found[first]
                draft.keys = index_keys(unique_key, more, traits.tag)
                draft.tags_code = traits.tags_code
            else:
                draft.parts = _parts(starts, found[first:end])
                draft.queue_ids = [row[0] for row in rows[first:end]]
            drafts.append(draft)
            first = end
        return drafts

    def alike(self, first: Message, after_size: int, varying: Varying, traits: Traits, size_max: int) -> list[Draft]:
        """The same of messages that are alike, of which this is the first (see `alike.to_records`)."""
        records, starts = to_alike_records(first, after_size, varying)
        count = max(size_max // starts.step, 1)
        drafts = []
        for at in range(0, len(starts), count):
            part = starts[: len(starts[at : at + count])]
            parts = _even_parts(part, list(varying.unique_keys[at : at + count]), traits)
            queue_ids = varying.queue_ids[at : at + count]
            data = records[starts[at] : starts[at] + part.stop]
            drafts.append(Draft(first.topic, queue_ids[0], data, part, parts=parts, queue_ids=queue_ids))
        return drafts

    def batch(self, shared: Message, body: bytes) -> Draft:
        """Returns a draft with a record for each part; all but body, flag and properties is of the `shared` message.

        As in 5.x, properties of the request itself are not stored (4.9 adds them to those of each part), and a level
        in a part's own properties has no effect. RecordError if the body is no batch.
        """
        self._check_batch(shared, body)
        even_draft = self._even_batch(shared, body)
        if even_draft is not None:
            return even_draft
        records, starts, properties = to_records(body, shared)
        self._check_keys(properties)
        draft = Draft(shared.topic, shared.queue_id, records, starts, True, _is_awaited(shared.properties))
        found = [read for read in map(self.properties.read, properties) if read is not None]
        if len(found) == len(starts):
            # Else one of them wants a closer look.
            draft.parts = _parts(starts, found)
        return draft

    def _even_batch(self, shared: Message, body: bytes) -> Draft | None:
        """Returns the same of a batch whose messages differ in body and unique key only; None if they do not."""
        outlined = even.outline(body)
        read = None if outlined is None else self.properties.read(outlined.properties)
        # With keys, and with many messages, it is looked at more closely.
        if outlined is None or read is None or read[1] or outlined.part_count > self._keys_max:
            return None
        made = even.to_records(body, outlined, shared)
        if made is None:
            return None
        records, starts, keys = made
        parts = _even_parts(starts, keys, read[2])
        is_awaited = _is_awaited(shared.properties)
        return Draft(shared.topic, shared.queue_id, records, starts, True, is_awaited, parts=parts)

    def _check_batch(self, shared: Message, body: bytes) -> None:
        _check_inner_batch(shared)
        if not body:
            raise MessageIllegal("a batch without messages")
        if len(body) > self.body_size_max:
            raise MessageIllegal(f"batch of {len(body)} bytes, at most {self.body_size_max} allowed")
        # A part has some bytes in any case, so that most batches need not be counted.
        if len(body) > self._parts_max * PART_SIZE_MIN and not is_short(body, self._parts_max):
            raise MessageIllegal(f"batch of more than {self._parts_max} messages, which is the most there may be")
        if sysflag.transaction_type(shared.sys_flag) != sysflag.NOT_TRANSACTION:
            raise MessageIllegal("a batch cannot be part of a transaction")
        text = find(shared.properties, DELAY_MARK)
        level = java_int(text) if text else 0
        if level is None or level > 0:
            raise MessageIllegal(f"a batch cannot be delayed, and {names.DELAY} is {text[:100]!r}")

    def _check_keys(self, properties: Sequence[bytes]) -> None:
        # A key and a space take two bytes, so that nearly every batch can be seen to have few.
        if sum(map(len, properties)) <= 2 * self._keys_max:
            return
        count = sum(len(find(data, KEYS_MARK).split()) for data in properties)
        if count > self._keys_max:
            raise MessageIllegal(f"batch with {count} keys, at most {self._keys_max} allowed")


def _parts(starts: Sequence[int], found: Sequence[Found]) -> Parts:
    """Returns what records are found by that begin there, by what was found in their properties."""
    keys: list[bytes] = []
    key_starts: list[int] = []
    tags_codes: list[int] = []
    note_code = tags_codes.append
    for start, (unique_key, more, traits) in zip(starts, found, strict=True):
        note_code(traits.tags_code)
        if more or traits.tag:
            all_keys = index_keys(unique_key, more, traits.tag)
            keys += all_keys
            key_starts += (start,) * len(all_keys)
        else:
            keys.append(unique_key)
            key_starts.append(start)
    return Parts(keys, key_starts, tags_codes)


def _even_parts(starts: range, keys: list[bytes], traits: Traits) -> Parts:
    """The same of records that have no keys but the unique ones."""
    key_starts: Sequence[int] = starts
    if traits.tag:
        keys = [key for unique_key in keys for key in (unique_key, tag_key(traits.tag))]
        key_starts = [start for start in starts for _ in range(2)]
    return Parts(keys, key_starts, [traits.tags_code] * len(starts))


def _is_awaited(properties: bytes) -> bool:
    return find(properties, _WAIT_MARK) != b"false"


def _check_inner_batch(message: Message) -> None:
    """A batch in one record needs a queue of another kind, which no topic here has."""
    if message.sys_flag & sysflag.INNER_BATCH:
        raise MessageIllegal(f"topic {message.topic!r} does not take batches in one record")
    if find(message.properties, _INNER_NUM_MARK):
        raise MessageIllegal(f"property {names.INNER_NUM} of a message that is no batch in one record")
