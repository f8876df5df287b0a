"""Checks the columns of a table that is written to topics, and encodes its rows as messages."""

import hashlib
from binascii import hexlify
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from kerolox.message import property_names as names
from kerolox.message.records.record import PROPERTIES_SIZE_MAX
from kerolox.spark.option_parser import OptionError

# The allowed types of each column; `value` is a synonym of `body`, for users of Spark's Kafka sink.
_COLUMN_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "topic": (StringType(),),
    "body": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "keys": (StringType(), ArrayType(StringType())),
    "tags": (StringType(),),
    "properties": (MapType(StringType(), StringType()),),
    "shardingKey": (StringType(),),
    "delay": (DayTimeIntervalType(), LongType(), IntegerType()),
    "delayLevel": (IntegerType(),),
    "deliverAt": (TimestampType(),),
}
_DELIVERY_TIMES: Final = ("delay", "deliverAt")
_DELAY_PROPERTIES: Final = {
    "delay": names.TIMER_DELAY_MS,
    "delayLevel": names.DELAY,
    "deliverAt": names.TIMER_DELIVER_MS,
}
# Number of unique keys that are remembered to distinguish equal rows; then a new generation of keys begins.
_REMEMBERED_KEYS_MAX: Final = 2_000_000
# Bytes of a unique key; as hexadecimal digits it has the 32 characters of other producers' ids.
_KEY_SIZE: Final = 16


class RowError(ValueError):
    """A row that brokers would refuse; the message names the row and the reason."""


# A message to send: topic, body, properties, sharding key, and whether it is delayed. Delayed messages cannot be sent
# in a batch.
EncodedRow: TypeAlias = tuple[str, bytes, bytes, str | None, bool]


@dataclass(frozen=True)
class WriteColumns:
    """The checked columns of a table."""

    names: frozenset[str]
    body: str

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> "WriteColumns":
        """Check a schema; OptionError names a column that is missing or cannot be written."""
        for field in schema.fields:
            types = _COLUMN_TYPES.get(field.name)
            if types is None:
                raise OptionError(
                    f"column {field.name} cannot be written: drop it, or put it into properties; "
                    f"there are {', '.join(_COLUMN_TYPES)}"
                )
            if not any(_is_same_type(field.dataType, data_type) for data_type in types):
                wanted = " or ".join(data_type.simpleString() for data_type in types)
                raise OptionError(f"column {field.name} is {field.dataType.simpleString()}, expected {wanted}: cast it")
        found = frozenset(schema.fieldNames())
        if topic is None and "topic" not in found:
            raise OptionError("option topic is missing, and there is no column topic: give one of them")
        if len(found & {"body", "value"}) != 1:
            raise OptionError("one column named body (or value) is needed, of type binary or string")
        given = sorted(found & set(_DELAY_PROPERTIES))
        if len(given) > 1:
            raise OptionError(f"columns {' and '.join(given)} contradict each other: keep one of them")
        return cls(found, "body" if "body" in found else "value")

    @property
    def delivery_time(self) -> str | None:
        """The column with delivery times, which only brokers of 5.x support; None if there is none."""
        return next((name for name in _DELIVERY_TIMES if name in self.names), None)


def _is_same_type(actual: DataType, wanted: DataType) -> bool:
    """Whether two types are equal, ignoring nullability."""
    if isinstance(wanted, ArrayType | MapType):
        return actual.simpleString() == wanted.simpleString()
    return isinstance(actual, type(wanted))


class RowEncoder:
    """Encodes the rows of one partition as messages; a row that is sent again gets the same unique key.

    The key is a hash of write, partition and content of the row, not of its number: after a shuffle the rows may come
    in another order, and dropping repeats by key would then lose rows. Equal rows are distinguished by a counter.
    """

    def __init__(self, columns: WriteColumns, topic: str | None, scope: str) -> None:
        self._columns = columns
        self._topic = topic
        self._scope = scope
        self._generation = 0
        self._seen: set[bytes] = set()
        self._base = self._hash()
        self._number = 0

    def _hash(self) -> Any:
        return hashlib.sha256(f"{self._scope}\0{self._generation}\0".encode())

    def encode(self, batch: pa.RecordBatch) -> Iterator[EncodedRow]:
        """Yield a message for each row; RowError names the first invalid row."""
        count = batch.num_rows
        nulls = [None] * count
        found = {
            name: batch.column(name).to_pylist() if name in self._columns.names else nulls
            for name in ("keys", "tags", "properties", "shardingKey")
        }
        bodies = batch.column(self._columns.body).to_pylist()
        topics = [self._topic] * count if self._topic is not None else batch.column("topic").to_pylist()
        delay = next(iter(self._columns.names & set(_DELAY_PROPERTIES)), None)
        delays = nulls if delay is None else batch.column(delay).to_pylist()
        for topic, body, keys, tags, properties, sharding_key, delayed in zip(
            topics, bodies, found["keys"], found["tags"], found["properties"], found["shardingKey"], delays, strict=True
        ):
            if not topic:
                raise self._row_error(topic, "the column topic is empty, and there is no option topic")
            if not body:
                raise self._row_error(
                    topic, f"the column {self._columns.body} is empty, and brokers refuse empty bodies"
                )
            data = body.encode() if isinstance(body, str) else body
            text = ""
            parts = 0
            if keys:
                text += f"KEYS\x01{self._joined(topic, keys)}\x02"
                parts += 1
            if tags:
                text += f"TAGS\x01{tags}\x02"
                parts += 1
            if sharding_key:
                text += f"{names.SHARDING_KEY}\x01{sharding_key}\x02"
                parts += 1
            if delayed is not None and delay is not None and (millis := _delay_value(delay, delayed)) > 0:
                text += f"{_DELAY_PROPERTIES[delay]}\x01{millis}\x02"
                parts += 1
            if properties:
                for name, value in properties if isinstance(properties, list) else properties.items():
                    if value:
                        text += f"{self._checked(topic, name)}\x01{value}\x02"
                        parts += 1
            if parts and (text.count("\x02") != parts or text.count("\x01") != parts):
                raise self._row_error(
                    topic, "keys, tags and properties must not contain 0x01 or 0x02, their separators"
                )
            encoded = self._with_key(topic, text, data)
            if len(encoded) > PROPERTIES_SIZE_MAX:
                reason = (
                    f"keys, tags and properties take {len(encoded)} bytes, more than the limit of {PROPERTIES_SIZE_MAX}"
                )
                raise self._row_error(topic, reason)
            yield topic, data, encoded, sharding_key, delayed is not None
            self._number += 1

    def _with_key(self, topic: str, text: str, body: bytes) -> bytes:
        properties = text.encode()
        hashed = self._base.copy()
        hashed.update(b"%b\0%b\0%b" % (topic.encode(), properties, body))
        seen = self._seen
        key = hashed.digest()[:_KEY_SIZE]
        while key in seen:
            # An equal row: extend the hash, which is deterministic, too.
            hashed.update(b"again")
            key = hashed.digest()[:_KEY_SIZE]
        seen.add(key)
        if len(seen) >= _REMEMBERED_KEYS_MAX:
            self._generation += 1
            self._base = self._hash()
            seen.clear()
        return b"%bUNIQ_KEY\x01%b\x02" % (properties, hexlify(key).upper())

    def _joined(self, topic: str, keys: Any) -> str:
        if isinstance(keys, str):
            return keys
        if any(not key or " " in key for key in keys):
            raise self._row_error(topic, f"keys {keys!r}: spaces separate keys, so none may contain one or be empty")
        return " ".join(keys)

    def _checked(self, topic: str, name: str) -> str:
        if name in names.RESERVED or name == names.SHARDING_KEY or not name.strip():
            raise self._row_error(
                topic, f"property {name!r} is reserved by RocketMQ: use the column for it, or remove it with map_filter"
            )
        return name

    def _row_error(self, topic: str | None, reason: str) -> RowError:
        return RowError(f"row {self._number} of this partition, topic {topic!r}: {reason}")


def _delay_value(column: str, value: Any) -> int:
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return int(value)
