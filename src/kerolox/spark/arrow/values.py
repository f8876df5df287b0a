"""The columns `value` and `valueError`: bodies parsed as text, JSON or Avro, or the reason why they cannot be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from kerolox.spark.arrow import avro_values, json_values
from kerolox.spark.option_parser import OptionError
from kerolox.spark.schema import BODY, VALUE, VALUE_ERROR, columns_of, with_columns, with_value

VALUE_OPTIONS: Final = ("valueFormat", "valueSchema")
# Parses a body; ValueError with the reason if that fails.
Parse: TypeAlias = Callable[[bytes], Any]
_SCHEMAS: Final = {"json": "such as 'id BIGINT, name STRING'", "avro": "an Avro schema as JSON"}


@dataclass(frozen=True)
class ValueFormat:
    """The format of bodies. Picklable; the parser is created on the worker."""

    name: str
    kind: DataType
    schema_text: str = ""

    def parser(self) -> Parse:
        if self.name == "json":
            return json_values.parser(self.kind)
        return avro_values.parser(self.schema_text)


def parse_value_format(options: Mapping[str, str]) -> ValueFormat | None:
    """Parse valueFormat and valueSchema, None if not given; OptionError names the invalid option."""
    lowered = {name.lower(): value for name, value in options.items()}
    name, text = lowered.get("valueformat"), lowered.get("valueschema")
    if name is None:
        if text is not None:
            raise OptionError("option valueSchema needs valueFormat: give that too, json or avro")
        return None
    name = name.strip().lower()
    if name in ("binary", "string"):
        if text is not None:
            raise OptionError(f"option valueSchema has no meaning for valueFormat {name}: leave it out")
        return ValueFormat(name, BinaryType() if name == "binary" else StringType())
    if name not in _SCHEMAS:
        raise OptionError(f"option valueFormat is {name!r}: give one of binary, string, json, avro")
    if text is None:
        raise OptionError(f"option valueSchema is missing: valueFormat {name} needs one, {_SCHEMAS[name]}")
    kind = json_values.spark_type(text) if name == "json" else avro_values.spark_type(text)
    return ValueFormat(name, kind, text)


def with_value_columns(schema: StructType, value_format: ValueFormat | None) -> StructType:
    return schema if value_format is None else with_value(schema, value_format.kind)


class ValueColumns:
    """Adds value columns to batches, as the schema asks for them; pickled to the workers."""

    def __init__(self, value_format: ValueFormat | None, schema: StructType) -> None:
        self._format = value_format
        names = schema.fieldNames()
        self._has_values = value_format is not None and (VALUE in names or VALUE_ERROR in names)
        made = (VALUE, VALUE_ERROR) if value_format is not None else ()
        asked = columns_of(schema, besides=made)
        # The columns to build from records: with the body, even if the schema has only its value.
        self.wanted = with_columns(asked, BODY) if self._has_values else asked
        self._names = tuple(names)
        fields = {field.name: field for field in asked.arrow}
        if value_format is not None:
            for field in schema.fields:
                if field.name in made:
                    fields[field.name] = _arrow_field(field, value_format)
        self._arrow = pa.schema([fields[name] for name in names])
        self._parse: Parse | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parse": None}

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the schema, in its order."""
        if not self._has_values:
            return batch
        value_type = self._value_type()
        value_column, errors = self._values(batch.column(BODY), value_type)
        made = {VALUE: value_column, VALUE_ERROR: errors}
        arrays = [made[name] if name in made else batch.column(name) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)

    def _value_type(self) -> pa.DataType:
        assert self._format is not None
        return _arrow(self._format.kind).type

    def _values(self, bodies: pa.BinaryArray, kind: pa.DataType) -> tuple[pa.Array, pa.StringArray]:
        assert self._format is not None
        if self._format.name == "binary":
            return bodies, pa.nulls(len(bodies), pa.string())
        if self._format.name == "string":
            return _texts(bodies)
        if self._parse is None:
            self._parse = self._format.parser()
        return _parsed(bodies, self._parse, kind)


def _texts(bodies: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
    try:
        return bodies.cast(pa.string()), pa.nulls(len(bodies), pa.string())
    except pa.ArrowInvalid:
        return _parsed(bodies, lambda body: body.decode(), pa.string())


def _parsed(bodies: pa.BinaryArray, parse: Parse, kind: pa.DataType) -> tuple[pa.Array, pa.StringArray]:
    found: list[Any] = []
    errors: list[str | None] = []
    for body in bodies.to_pylist():
        value, error = None, None
        if body is not None:
            try:
                value = parse(body)
            except ValueError as raised:
                error = str(raised)
        found.append(value)
        errors.append(error)
    try:
        return pa.array(found, kind), pa.array(errors, pa.string())
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _one_by_one(found, errors, kind)


def _one_by_one(found: list[Any], errors: list[str | None], kind: pa.DataType) -> tuple[pa.Array, pa.StringArray]:
    """Convert values one at a time, to find those that Arrow rejects, such as a number with too many digits."""
    columns = []
    for row, value in enumerate(found):
        try:
            columns.append(pa.array([value], kind))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            columns.append(pa.nulls(1, kind))
            errors[row] = str(error)
    return pa.concat_arrays(columns), pa.array(errors, pa.string())


def _arrow_field(field: StructField, value_format: ValueFormat) -> pa.Field:
    expected = value_format.kind if field.name == VALUE else StringType()
    if field.dataType != expected:
        raise OptionError(
            f"column {field.name} is {expected.simpleString()} by valueFormat {value_format.name}, "
            f"and .schema(...) says {field.dataType.simpleString()}: leave one of them out"
        )
    return pa.field(field.name, _arrow(expected).type, nullable=field.nullable)


def _arrow(kind: DataType) -> pa.Field:
    schema = StructType([StructField(VALUE, kind)])
    try:
        return to_arrow_schema(schema, timezone="UTC").field(0)
    except TypeError:
        # Before Spark 4.2 it has no parameter timezone.
        return to_arrow_schema(schema).field(0)
