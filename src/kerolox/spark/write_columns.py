"""The columns of a table that is written to topics, and the messages its rows are."""

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

from kerolox.message import names
from kerolox.message.record import PROPERTIES_SIZE_MAX
from kerolox.spark.given import OptionError

# What each column may be; several names for one thing are those that Kafka's users know.
_KINDS: Final[dict[str, tuple[DataType, ...]]] = {
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
_TIMES: Final = ("delay", "deliverAt")
_DELAYS: Final = {"delay": names.TIMER_DELAY_MS, "delayLevel": names.DELAY, "deliverAt": names.TIMER_DELIVER_MS}
# So many rows are told apart by what is in them; those that come after are a group of their own.
_REMEMBERED_MAX: Final = 2_000_000
# Half as many as the digits that other producers' ids have.
_KEY_SIZE: Final = 16


class RowError(ValueError):
    """A row that no broker would take; the message says which, and why."""


# A message to be sent: topic, body, properties, sharding key, and whether it is delayed. Brokers take no batches of
# what is delayed.
Row: TypeAlias = tuple[str, bytes, bytes, str | None, bool]


@dataclass(frozen=True)
class WriteColumns:
    """Which columns there are, checked."""

    names: frozenset[str]
    body: str

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> "WriteColumns":
        """OptionError names a column that cannot be written, or is missing."""
        for field in schema.fields:
            kinds = _KINDS.get(field.name)
            if kinds is None:
                raise OptionError(
                    f"column {field.name} cannot be written: drop it, or put it into properties; "
                    f"there are {', '.join(_KINDS)}"
                )
            if not any(_is_alike(field.dataType, kind) for kind in kinds):
                wanted = " or ".join(kind.simpleString() for kind in kinds)
                raise OptionError(f"column {field.name} is {field.dataType.simpleString()}, expected {wanted}: cast it")
        found = frozenset(schema.fieldNames())
        if topic is None and "topic" not in found:
            raise OptionError("option topic is missing, and there is no column topic: give one of them")
        if len(found & {"body", "value"}) != 1:
            raise OptionError("one column named body (or value) is needed, of type binary or string")
        given = sorted(found & set(_DELAYS))
        if len(given) > 1:
            raise OptionError(f"columns {' and '.join(given)} contradict each other: keep one of them")
        return cls(found, "body" if "body" in found else "value")

    @property
    def time(self) -> str | None:
        """Which column has times that only brokers of 5.x heed; None if there is none."""
        return next((name for name in _TIMES if name in self.names), None)


def _is_alike(kind: DataType, wanted: DataType) -> bool:
    """Whether it is the same but for what may be null."""
    if isinstance(wanted, ArrayType | MapType):
        return kind.simpleString() == wanted.simpleString()
    return isinstance(kind, type(wanted))


class Rows:
    """Makes messages of the rows of one partition, each with a unique key that it has again if it is sent again.

    The key is of the write, the partition and what is in the row, not of its number: after a shuffle rows may come
    in another order, and whoever drops repeats would then lose some. Rows that are alike are counted.
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

    def of(self, batch: pa.RecordBatch) -> Iterator[Row]:
        """Yields a message for each row; RowError names the first that is none."""
        count = batch.num_rows
        nothing = [None] * count
        found = {
            name: batch.column(name).to_pylist() if name in self._columns.names else nothing
            for name in ("keys", "tags", "properties", "shardingKey")
        }
        bodies = batch.column(self._columns.body).to_pylist()
        topics = [self._topic] * count if self._topic is not None else batch.column("topic").to_pylist()
        delay = next(iter(self._columns.names & set(_DELAYS)), None)
        delays = nothing if delay is None else batch.column(delay).to_pylist()
        for topic, body, keys, tags, properties, sharding_key, delayed in zip(
            topics, bodies, found["keys"], found["tags"], found["properties"], found["shardingKey"], delays, strict=True
        ):
            if not topic:
                raise self._wrong(topic, "the column topic is empty, and there is no option topic")
            if not body:
                raise self._wrong(topic, f"the column {self._columns.body} is empty, and brokers take no empty bodies")
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
            if delayed is not None and delay is not None and (millis := _delay(delay, delayed)) > 0:
                text += f"{_DELAYS[delay]}\x01{millis}\x02"
                parts += 1
            if properties:
                for name, value in properties if isinstance(properties, list) else properties.items():
                    if value:
                        text += f"{self._checked(topic, name)}\x01{value}\x02"
                        parts += 1
            if parts and (text.count("\x02") != parts or text.count("\x01") != parts):
                raise self._wrong(topic, "keys, tags and properties hold neither 0x01 nor 0x02, which part them")
            made = self._with_key(topic, text, data)
            if len(made) > PROPERTIES_SIZE_MAX:
                reason = f"keys, tags and properties take {len(made)} bytes, and brokers keep {PROPERTIES_SIZE_MAX}"
                raise self._wrong(topic, reason)
            yield topic, data, made, sharding_key, delayed is not None
            self._number += 1

    def _with_key(self, topic: str, text: str, body: bytes) -> bytes:
        properties = text.encode()
        hashed = self._base.copy()
        hashed.update(b"%b\0%b\0%b" % (topic.encode(), properties, body))
        seen = self._seen
        key = hashed.digest()[:_KEY_SIZE]
        while key in seen:
            # One more that is alike.
            hashed.update(b"again")
            key = hashed.digest()[:_KEY_SIZE]
        seen.add(key)
        if len(seen) >= _REMEMBERED_MAX:
            self._generation += 1
            self._base = self._hash()
            seen.clear()
        return b"%bUNIQ_KEY\x01%b\x02" % (properties, hexlify(key).upper())

    def _joined(self, topic: str, keys: Any) -> str:
        if isinstance(keys, str):
            return keys
        if any(not key or " " in key for key in keys):
            raise self._wrong(topic, f"keys {keys!r}: a space parts them, so that none may hold one, or be empty")
        return " ".join(keys)

    def _checked(self, topic: str, name: str) -> str:
        if name in names.RESERVED or name == names.SHARDING_KEY or not name.strip():
            raise self._wrong(
                topic, f"property {name!r} is RocketMQ's own: use the column for it, or leave it out with map_filter"
            )
        return name

    def _wrong(self, topic: str | None, reason: str) -> RowError:
        return RowError(f"row {self._number} of this partition, topic {topic!r}: {reason}")


def _delay(column: str, value: Any) -> int:
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return int(value)
