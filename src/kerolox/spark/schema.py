"""The columns of a topic as a table, for Spark and for Arrow."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kerolox.errors import ConfigurationError

PROPERTIES: Final = "properties"
BODY: Final = "body"
# What `valueFormat` adds, and why there is no value where there is none.
VALUE: Final = "value"
VALUE_ERROR: Final = "valueError"
# What the store source adds if it is to report what is damaged.
DAMAGE: Final = "damage"

_TEXTS = MapType(StringType(), StringType())
_ARROW_TEXTS = pa.map_(pa.string(), pa.string())
_ARROW_TIMESTAMP = pa.timestamp("us", "UTC")

# Name, type in Spark, type in Arrow; in the order in which they are shown.
_COLUMNS: Final[tuple[tuple[str, DataType, pa.DataType], ...]] = (
    ("topic", StringType(), pa.string()),
    ("brokerName", StringType(), pa.string()),
    ("queueId", IntegerType(), pa.int32()),
    ("queueOffset", LongType(), pa.int64()),
    ("commitLogOffset", LongType(), pa.int64()),
    ("msgId", StringType(), pa.string()),
    ("offsetMsgId", StringType(), pa.string()),
    ("keys", StringType(), pa.string()),
    ("tags", StringType(), pa.string()),
    ("bornTimestamp", TimestampType(), _ARROW_TIMESTAMP),
    ("storeTimestamp", TimestampType(), _ARROW_TIMESTAMP),
    ("bornHost", StringType(), pa.string()),
    ("reconsumeTimes", IntegerType(), pa.int32()),
    (PROPERTIES, _TEXTS, _ARROW_TEXTS),
    (BODY, BinaryType(), pa.binary()),
    (DAMAGE, StringType(), pa.string()),
)
_SPARK_TYPES: Final = {name: spark_type for name, spark_type, _ in _COLUMNS}
_ARROW_TYPES: Final = {name: arrow_type for name, _, arrow_type in _COLUMNS}


@dataclass(frozen=True)
class Wanted:
    """The columns to be made of records, in their order; what is not wanted is not even looked for."""

    names: tuple[str, ...]
    # Not nullable is only what the user's own schema says is not.
    arrow: pa.Schema

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "arrow": self.arrow}


def columns(*, include_properties: bool = False, include_damage: bool = False) -> StructType:
    """Returns the schema of a topic; the map of properties costs more than all other columns, so it is asked for."""
    left_out = {name for name, is_in in ((PROPERTIES, include_properties), (DAMAGE, include_damage)) if not is_in}
    return StructType([StructField(name, kind) for name, kind, _ in _COLUMNS if name not in left_out])


def with_value(schema: StructType, kind: DataType) -> StructType:
    """Returns the schema with a value of this type, and the reason why there is none."""
    return StructType([*schema.fields, StructField(VALUE, kind), StructField(VALUE_ERROR, StringType())])


def wanted(schema: StructType, *, besides: Sequence[str] = ()) -> Wanted:
    """Returns what a schema, perhaps the user's own, asks of records; columns named in `besides` are made elsewhere.

    ConfigurationError if it names a column that no record has, or gives one another type.
    """
    names = []
    fields = []
    for field in schema.fields:
        if field.name in besides:
            continue
        kind = _SPARK_TYPES.get(field.name)
        if kind is None:
            raise ConfigurationError(f"column {field.name!r} is unknown; there are {_listed(_SPARK_TYPES)}")
        if field.dataType != kind:
            raise ConfigurationError(
                f"column {field.name!r} is {kind.simpleString()}, and .schema(...) says {field.dataType.simpleString()}"
            )
        names.append(field.name)
        fields.append(pa.field(field.name, _ARROW_TYPES[field.name], nullable=field.nullable))
    return Wanted(tuple(names), pa.schema(fields))


def with_columns(asked: Wanted, *names: str) -> Wanted:
    """Returns what asks for these columns, too."""
    more = [name for name in names if name not in asked]
    fields = [*asked.arrow, *(pa.field(name, _ARROW_TYPES[name]) for name in more)]
    return Wanted((*asked.names, *more), pa.schema(fields))


def wanted_columns(*names: str) -> Wanted:
    """Returns what asks for these columns."""
    return Wanted(names, pa.schema([pa.field(name, _ARROW_TYPES[name]) for name in names]))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
