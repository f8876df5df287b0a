"""The columns of a topic as a table, with their Spark and Arrow types."""

from collections.abc import Sequence
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
# Columns that option `valueFormat` adds: the parsed body, and the error if it cannot be parsed.
VALUE: Final = "value"
VALUE_ERROR: Final = "valueError"
# Column that the store source adds with onDamage=report.
DAMAGE: Final = "damage"

_STRING_MAP = MapType(StringType(), StringType())
_ARROW_STRING_MAP = pa.map_(pa.string(), pa.string())
_ARROW_TIMESTAMP = pa.timestamp("us", "UTC")

# Name, Spark type and Arrow type, in the order of the table.
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
    (PROPERTIES, _STRING_MAP, _ARROW_STRING_MAP),
    (BODY, BinaryType(), pa.binary()),
    (DAMAGE, StringType(), pa.string()),
)
_SPARK_TYPES: Final = {name: spark_type for name, spark_type, _ in _COLUMNS}
_ARROW_TYPES: Final = {name: arrow_type for name, _, arrow_type in _COLUMNS}


@dataclass(frozen=True)
class WantedColumns:
    """The columns to build from records, in their order; other fields are not even decoded."""

    names: tuple[str, ...]
    # A field is nullable unless the user's own schema says otherwise.
    arrow: pa.Schema

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getstate__(self) -> dict[str, Any]:
        return {"names": self.names, "arrow": self.arrow}


def topic_schema(*, include_properties: bool = False, include_damage: bool = False) -> StructType:
    """Return the schema of a topic. The properties map is optional: it costs more than all other columns."""
    left_out = {name for name, is_in in ((PROPERTIES, include_properties), (DAMAGE, include_damage)) if not is_in}
    return StructType([StructField(name, kind) for name, kind, _ in _COLUMNS if name not in left_out])


def with_value(schema: StructType, kind: DataType) -> StructType:
    """Return the schema with the columns value, of this type, and valueError."""
    return StructType([*schema.fields, StructField(VALUE, kind), StructField(VALUE_ERROR, StringType())])


def columns_of(schema: StructType, *, besides: Sequence[str] = ()) -> WantedColumns:
    """Return the columns to build for a schema, perhaps the user's own, without those named in `besides`.

    ConfigurationError if the schema has an unknown column, or one with another type.
    """
    names = []
    fields = []
    for field in schema.fields:
        if field.name in besides:
            continue
        kind = _SPARK_TYPES.get(field.name)
        if kind is None:
            raise ConfigurationError(f"column {field.name!r} is unknown; there are {', '.join(_SPARK_TYPES)}")
        if field.dataType != kind:
            raise ConfigurationError(
                f"column {field.name!r} is {kind.simpleString()}, and .schema(...) says {field.dataType.simpleString()}"
            )
        names.append(field.name)
        fields.append(pa.field(field.name, _ARROW_TYPES[field.name], nullable=field.nullable))
    return WantedColumns(tuple(names), pa.schema(fields))


def with_columns(asked: WantedColumns, *names: str) -> WantedColumns:
    """Return `asked` with these columns added."""
    more = [name for name in names if name not in asked]
    fields = [*asked.arrow, *(pa.field(name, _ARROW_TYPES[name]) for name in more)]
    return WantedColumns((*asked.names, *more), pa.schema(fields))


def columns_named(*names: str) -> WantedColumns:
    """Return columns by name, all nullable."""
    return WantedColumns(names, pa.schema([pa.field(name, _ARROW_TYPES[name]) for name in names]))
