"""Encodes messages into the records that the commit log appends (MessageExtEncoder)."""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from kerolox.message import property_names, sysflag
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.plain_properties import FoundProperties, PlainProperties
from kerolox.message.properties import by_initials, find, find_by_initials, mark
from kerolox.message.records import even_batch
from kerolox.message.records.batch import PART_SIZE_MIN, has_at_most, to_records
from kerolox.message.records.message_columns import MessageColumns, encode_columns
from kerolox.message.records.record import BODY_SIZE_MAX, check_properties, encode
from kerolox.message.records.summary import KEYS_MARK, TAGS_MARK, UNIQ_KEY_MARK
from kerolox.message.tags import tags_code
from kerolox.store.delay.delay_levels import DELAY_MARK, SCHEDULE_TOPIC, java_int
from kerolox.store.log.commit_log import Append, KeyColumns

# Returns the message to store in place of the one sent; the message itself if the diversion does not apply.
Diversion: TypeAlias = Callable[[Message], Message]

_INNER_NUM_MARK = mark(property_names.INNER_NUM)
_WAIT_MARK = mark(property_names.WAIT)
# Properties of messages that need special handling: inner batches, transactions, POP checkpoints.
_UNUSUAL = (_INNER_NUM_MARK, mark(property_names.TRAN_MSG), mark(property_names.POP_CK))
# The outline of properties has names by their first four bytes.
_WAIT, _TAGS, _KEYS, _INNER = (name[:4] for name in (_WAIT_MARK, TAGS_MARK, KEYS_MARK, _INNER_NUM_MARK))


class MessageEncoder:
    """Encodes messages into appends; MessageIllegal for messages that must not be stored, as in Java.

    Each diversion sees the result of the one before. The diversion of delay levels comes before the one of timers,
    since a delay level takes precedence. Messages that a timer or delay level delivers must not be encoded here again.
    """

    def __init__(
        self,
        diversions: Mapping[bytes, Diversion] | None = None,
        *,
        body_size_max: int = BODY_SIZE_MAX,
        parts_max: int = sys.maxsize,
        keys_max: int = sys.maxsize,
    ) -> None:
        # Diversion by the first four bytes of a property that all its messages have.
        self._diversions = tuple((name[:4], divert) for name, divert in (diversions or {}).items())
        self.body_size_max = body_size_max
        # Limits of a batch, which is dispatched at once: its messages, and the keys of all of them.
        self._parts_max = parts_max
        self._keys_max = keys_max
        # Reads the properties of messages that are stored unchanged.
        self.properties = PlainProperties((*(diversions or {}), *_UNUSUAL))

    def encode(self, message: Message) -> Append:
        """Encode a message. A diversion may store it under another topic and queue; `message` is not changed."""
        check_properties(message.properties)
        return self.encode_outlined(message, by_initials(message.properties))

    def encode_outlined(self, message: Message, outlined: dict[bytes, bytes]) -> Append:
        """Like `encode`, given an outline of the properties, which may cover only some of them."""
        sys_flag, properties = message.sys_flag, message.properties
        if sys_flag & sysflag.INNER_BATCH or _INNER in outlined:
            _check_inner_batch(message)
        # The types PREPARED and ROLLBACK have this bit; one test keeps the common case cheap.
        if sys_flag & sysflag.PREPARED:
            records = encode(message, self.body_size_max)
            return Append(message.topic, message.queue_id, records, (0,), False, _is_awaited(properties))
        is_awaited = _WAIT not in outlined or find_by_initials(outlined, properties, _WAIT_MARK) != b"false"
        for prefix, divert in self._diversions:
            if prefix in outlined:
                message = divert(message)
        append = Append(message.topic, message.queue_id, encode(message, self.body_size_max), (0,), True, is_awaited)
        if message.topic != SCHEDULE_TOPIC:
            unique_key = find_by_initials(outlined, properties, UNIQ_KEY_MARK)
            tag = keys = b""
            if _TAGS in outlined:
                tag = find_by_initials(outlined, properties, TAGS_MARK)
                append.tags_code = tags_code(tag)
            if _KEYS in outlined:
                keys = find_by_initials(outlined, properties, KEYS_MARK)
            append.keys = unique_key, keys, tag
        return append

    def encode_plain(
        self, store_host: bytes, messages: MessageColumns, keys: KeyColumns, size_max: int
    ) -> list[Append]:
        """Encode plain messages of any topics; `keys` was found in their properties.

        Each append has at most `size_max` bytes. The caller has checked the sizes of bodies and properties.
        """
        appends = []
        first = 0
        for records, starts in encode_columns(store_host, messages, size_max):
            end = first + len(starts)
            queues = messages.queues[first:end]
            key_columns = keys if len(starts) == len(messages) else keys.part(first, end)
            appends.append(Append(*queues[0], records, starts, key_columns=key_columns, queues=queues))
            first = end
        return appends

    def encode_batch(self, shared: Message, body: bytes) -> Append:
        """Encode a producer batch, one record per part. All but body, flag and properties come from `shared`.

        As in 5.x, properties of the request itself are not stored (4.9 adds them to those of each part), and a delay
        level in a part's own properties has no effect. RecordError if the body is not a batch.
        """
        self._check_batch(shared, body)
        even_append = self._even_batch(shared, body)
        if even_append is not None:
            return even_append
        records, starts, properties = to_records(body, shared)
        self._check_keys(properties)
        append = Append(shared.topic, shared.queue_id, records, starts, True, _is_awaited(shared.properties))
        # If a part has unusual properties, the dispatcher reads the records, and the other parts need not be read here.
        found = list(takewhile(bool, map(self.properties.read_part, properties)))
        if len(found) == len(starts):
            append.key_columns = _key_columns([read for read in found if read is not None])
        return append

    def _even_batch(self, shared: Message, body: bytes) -> Append | None:
        """Encode a batch whose messages differ in body and unique key only; None if they do not."""
        outlined = even_batch.detect_layout(body)
        read = None if outlined is None else self.properties.read(outlined.properties)
        # Batches with keys, or very many messages, take the general path.
        if outlined is None or read is None or read[1] or outlined.part_count > self._keys_max:
            return None
        encoded = even_batch.to_records(body, outlined, shared)
        if encoded is None:
            return None
        records, starts, keys = encoded
        parts = _even_key_columns(keys, read[2])
        is_awaited = _is_awaited(shared.properties)
        return Append(shared.topic, shared.queue_id, records, starts, True, is_awaited, key_columns=parts)

    def _check_batch(self, shared: Message, body: bytes) -> None:
        _check_inner_batch(shared)
        if not body:
            raise MessageIllegal("the batch has no messages")
        if len(body) > self.body_size_max:
            raise MessageIllegal(f"batch of {len(body)} bytes, at most {self.body_size_max} allowed")
        # Every part has a minimum size, so most batches need not be counted.
        if len(body) > self._parts_max * PART_SIZE_MIN and not has_at_most(body, self._parts_max):
            raise MessageIllegal(f"batch of more than {self._parts_max} messages (batchPartsMax)")
        if sysflag.transaction_type(shared.sys_flag) != sysflag.NOT_TRANSACTION:
            raise MessageIllegal("a batch cannot be part of a transaction")
        text = find(shared.properties, DELAY_MARK)
        level = java_int(text) if text else 0
        if level is None or level > 0:
            raise MessageIllegal(f"a batch cannot be delayed, but {property_names.DELAY} is {text[:100]!r}")

    def _check_keys(self, properties: Sequence[bytes]) -> None:
        # A key and a space take at least two bytes, so most batches need not be counted.
        if sum(map(len, properties)) <= 2 * self._keys_max:
            return
        count = sum(len(find(data, KEYS_MARK).split()) for data in properties)
        if count > self._keys_max:
            raise MessageIllegal(f"batch with {count} keys, at most {self._keys_max} allowed")


def _key_columns(found: Sequence[FoundProperties]) -> KeyColumns:
    unique_keys, keys, tags = zip(*found, strict=True)
    return KeyColumns(unique_keys, keys, tags, [tags_code(tag) if tag else 0 for tag in tags])


def _even_key_columns(unique_keys: Sequence[bytes], tag: bytes) -> KeyColumns:
    """Return the columns of records that have no keys but unique ones and share one tag."""
    count = len(unique_keys)
    return KeyColumns(unique_keys, (b"",) * count, (tag,) * count, (tags_code(tag),) * count)


def _is_awaited(properties: bytes) -> bool:
    return find(properties, _WAIT_MARK) != b"false"


def _check_inner_batch(message: Message) -> None:
    """Refuse inner batches: they need a BatchConsumeQueue, which no topic here has."""
    if message.sys_flag & sysflag.INNER_BATCH:
        raise MessageIllegal(f"topic {message.topic!r} does not accept inner batches")
    if find(message.properties, _INNER_NUM_MARK):
        raise MessageIllegal(f"property {property_names.INNER_NUM} on a message that is not an inner batch")
