"""Parses JSON bodies with a Spark schema."""

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Annotated, Any, Final, Optional, TypedDict

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kerolox.spark import ddl
from kerolox.spark.option_parser import OptionError

_PLAIN: Final[dict[type[DataType], Any]] = {
    StringType: str,
    BooleanType: bool,
    ByteType: Annotated[int, msgspec.Meta(ge=-(2**7), lt=2**7)],
    ShortType: Annotated[int, msgspec.Meta(ge=-(2**15), lt=2**15)],
    IntegerType: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)],
    LongType: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    FloatType: float,
    DoubleType: float,
    DecimalType: decimal.Decimal,
    DateType: dt.date,
    TimestampType: dt.datetime,
    TimestampNTZType: dt.datetime,
    # Base64, as in Spark.
    BinaryType: bytes,
}


def spark_type(text: str) -> DataType:
    """Return the type of a schema given as DDL, or as the JSON of a StructType."""
    try:
        kind = StructType.fromJson(msgspec.json.decode(text)) if text.lstrip().startswith("{") else ddl.parse(text)
    except (PySparkException, msgspec.DecodeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise OptionError(
            f"option valueSchema is {text!r}: give columns such as 'id BIGINT, name STRING': {error}"
        ) from error
    _python_type(kind)
    return kind


def parser(kind: DataType) -> Callable[[bytes], Any]:
    """Return a parser for bodies; unknown fields are dropped, missing ones are null."""
    decode = msgspec.json.Decoder(_python_type(kind)).decode

    def parse(body: bytes) -> Any:
        try:
            return decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"not JSON of this schema: {error}") from error

    return parse


def _python_type(kind: DataType) -> Any:
    if isinstance(kind, StructType):
        fields = {field.name: Optional[_python_type(field.dataType)] for field in kind.fields}  # noqa: UP045
        return TypedDict("Value", fields, total=False)  # type: ignore[operator]
    if isinstance(kind, ArrayType):
        return list[Optional[_python_type(kind.elementType)]]  # type: ignore[misc]  # noqa: UP045
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise OptionError(f"option valueSchema has a {kind.simpleString()}: in JSON only strings can be keys")
        return dict[str, Optional[_python_type(kind.valueType)]]  # type: ignore[misc]  # noqa: UP045
    found = _PLAIN.get(type(kind))
    if found is None:
        raise OptionError(f"option valueSchema has a {kind.simpleString()}, which is not supported for JSON")
    return found
