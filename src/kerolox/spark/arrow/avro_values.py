"""Parses Avro bodies: a single binary datum without a header, with the schema it was written with."""

import importlib
import io
import json
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kerolox.runtime.optional_deps import install_command
from kerolox.spark.option_parser import OptionError

_PLAIN: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Final[dict[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
}


def spark_type(text: str) -> DataType:
    """Return the Spark type of an Avro schema; OptionError if there is none."""
    try:
        schema = json.loads(text)
        _avro().parse_schema(schema)
    except (ValueError, KeyError, TypeError, _avro("schema").SchemaParseException) as error:
        raise OptionError(f"option valueSchema is {text!r}: give an Avro schema as JSON: {error}") from error
    return _spark_type(schema, {})


def parser(text: str) -> Callable[[bytes], Any]:
    """Return a parser for bodies."""
    read = _avro().schemaless_reader
    schema = _avro().parse_schema(json.loads(text))
    adjust = _to_strings(spark_type(text))

    def parse(body: bytes) -> Any:
        stream = io.BytesIO(body)
        try:
            value = read(stream, schema, None)
        except Exception as error:
            # fastavro raises arbitrary exceptions on malformed input.
            raise ValueError(f"not Avro of this schema: {str(error) or type(error).__name__}") from error
        if stream.tell() != len(body):
            raise ValueError(f"not Avro of this schema: {len(body) - stream.tell()} trailing bytes")
        return adjust(value)

    return parse


def _spark_type(schema: Any, named: dict[str, DataType]) -> DataType:
    if isinstance(schema, list):
        kinds = [one for one in schema if one != "null"]
        if len(kinds) != 1:
            raise OptionError("option valueSchema has a union of several types: only one besides null is supported")
        return _spark_type(kinds[0], named)
    if isinstance(schema, str):
        found = _PLAIN.get(schema) or named.get(schema)
        if found is None:
            raise OptionError(f"option valueSchema has the type {schema!r}, which Spark does not have")
        return found
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _spark_type(kind, named)
    found = _complex(kind, schema, named)
    if "name" in schema:
        named[schema["name"]] = found
    return found


def _complex(kind: str, schema: dict[str, Any], named: dict[str, DataType]) -> DataType:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if logical in ("uuid", "time-millis", "time-micros"):
        return StringType()
    if kind in ("record", "error"):
        return StructType([StructField(field["name"], _spark_type(field["type"], named)) for field in schema["fields"]])
    if kind == "array":
        return ArrayType(_spark_type(schema["items"], named))
    if kind == "map":
        return MapType(StringType(), _spark_type(schema["values"], named))
    return _spark_type(kind, named)


def _to_strings(kind: DataType) -> Callable[[Any], Any]:
    """Return a function that converts UUIDs and times of day to strings, at any depth."""
    if isinstance(kind, StringType):
        return lambda value: value if value is None or isinstance(value, str) else str(value)
    if isinstance(kind, ArrayType):
        adjust = _to_strings(kind.elementType)
        return lambda value: value if value is None else [adjust(one) for one in value]
    if isinstance(kind, MapType):
        adjust = _to_strings(kind.valueType)
        return lambda value: value if value is None else {name: adjust(one) for name, one in value.items()}
    if isinstance(kind, StructType):
        adjusts = {field.name: _to_strings(field.dataType) for field in kind.fields}
        return lambda value: value if value is None else {name: do(value[name]) for name, do in adjusts.items()}
    return lambda value: value


def _avro(name: str = "") -> Any:
    try:
        return importlib.import_module(f"fastavro.{name}" if name else "fastavro")
    except ImportError as error:
        raise OptionError(f"option valueFormat avro needs the package fastavro: {install_command('spark')}") from error
