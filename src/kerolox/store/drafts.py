"""From a message as a producer sent it to what the commit log appends."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kerolox.message import names, sysflag
from kerolox.message.batch import to_records
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.peek import KEYS_MARK, TAGS_MARK, UNIQ_KEY_MARK
from kerolox.message.plain import Found, PlainProperties
from kerolox.message.properties import find, mark, outline, pick
from kerolox.message.record import BODY_SIZE_MAX, Row, check_properties, encode, encode_all
from kerolox.message.tags import tags_code
from kerolox.store.delay.delays import DELAY_MARK, SCHEDULE_TOPIC, java_int
from kerolox.store.keys.key_index import index_keys
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
        self, diversions: Mapping[bytes, Diversion] | None = None, *, body_size_max: int = BODY_SIZE_MAX
    ) -> None:
        # Each by a property that all messages have that it is about; looked for is how that begins.
        self._diversions = tuple((name[:4], divert) for name, divert in (diversions or {}).items())
        self.body_size_max = body_size_max
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

    def plain(self, topic: str, store_host: bytes, rows: Sequence[Row], found: Sequence[Found]) -> list[Draft]:
        """Returns the drafts of messages whose bodies are not too large, by what was found in their properties."""
        drafts = []
        records = encode_all(topic, store_host, rows)
        for record, row, (unique_key, keys, traits) in zip(records, rows, found, strict=True):
            keys_found = index_keys(unique_key, keys, traits.tag) if keys or traits.tag else [unique_key]
            drafts.append(Draft(topic, row[0], record, _FIRST, True, True, keys_found, traits.tags_code))
        return drafts

    def batch(self, shared: Message, body: bytes) -> Draft:
        """Returns a draft with a record for each part; all but body, flag and properties is of the `shared` message.

        As in 5.x, properties of the request itself are not stored (4.9 adds them to those of each part), and a level
        in a part's own properties has no effect. RecordError if the body is no batch.
        """
        self._check_batch(shared, body)
        records, starts, properties = to_records(body, shared)
        draft = Draft(shared.topic, shared.queue_id, records, starts, True, _is_awaited(shared.properties))
        draft.parts = self._parts(starts, properties)
        return draft

    def _parts(self, starts: Sequence[int], properties: Sequence[bytes]) -> Parts | None:
        """Returns what the records of a batch are found by; None if one of them wants a closer look."""
        parts, read = Parts([], [], []), self.properties.read
        for start, data in zip(starts, properties, strict=True):
            found = read(data)
            if found is None:
                return None
            unique_key, more, traits = found
            parts.tags_codes.append(traits.tags_code)
            keys_found = index_keys(unique_key, more, traits.tag) if more or traits.tag else (unique_key,)
            parts.keys += keys_found
            parts.key_starts += (start,) * len(keys_found)
        return parts

    def _check_batch(self, shared: Message, body: bytes) -> None:
        _check_inner_batch(shared)
        if not body:
            raise MessageIllegal("a batch without messages")
        if len(body) > self.body_size_max:
            raise MessageIllegal(f"batch of {len(body)} bytes, at most {self.body_size_max} allowed")
        if sysflag.transaction_type(shared.sys_flag) != sysflag.NOT_TRANSACTION:
            raise MessageIllegal("a batch cannot be part of a transaction")
        text = find(shared.properties, DELAY_MARK)
        level = java_int(text) if text else 0
        if level is None or level > 0:
            raise MessageIllegal(f"a batch cannot be delayed, and {names.DELAY} is {text[:100]!r}")


def _is_awaited(properties: bytes) -> bool:
    return find(properties, _WAIT_MARK) != b"false"


def _check_inner_batch(message: Message) -> None:
    """A batch in one record needs a queue of another kind, which no topic here has."""
    if message.sys_flag & sysflag.INNER_BATCH:
        raise MessageIllegal(f"topic {message.topic!r} does not take batches in one record")
    if find(message.properties, _INNER_NUM_MARK):
        raise MessageIllegal(f"property {names.INNER_NUM} of a message that is no batch in one record")
