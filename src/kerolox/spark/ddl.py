"""Spark's way to write a schema, `id BIGINT, tags ARRAY<STRING>`, read where no Spark session is at hand.

Spark's own parser lives in the JVM, and a data source is asked for its schema in a process without one.
"""

import re
from typing import Final

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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_][A-Za-z0-9_]*|[0-9]+)|([<>(),:]))")
_PLAIN: Final[dict[str, DataType]] = {
    "string": StringType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "byte": ByteType(),
    "smallint": ShortType(),
    "short": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "binary": BinaryType(),
}
_DECIMALS: Final = ("decimal", "dec", "numeric")


def parse(text: str) -> StructType:
    """Returns the columns; ValueError says what was expected, and where."""
    reader = _Reader(text)
    columns = reader.columns("")
    if reader.next():
        raise reader.expected("the end")
    return columns


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        # Names in backquotes are never taken for words of the language.
        self._quoted: set[int] = set()
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"{text[at : at + 20]!r} is neither name nor type")
            quoted, word, sign = found.groups()
            if quoted is not None:
                self._quoted.add(len(self._tokens))
            self._tokens.append(quoted.replace("``", "`") if quoted is not None else word or sign)
            at = found.end()
        self._at = 0

    def next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.next()
        self._at += 1
        return token

    def skip(self, token: str) -> bool:
        is_there = self.next().lower() == token and self._at not in self._quoted
        self._at += is_there
        return is_there

    def require(self, token: str) -> None:
        if not self.skip(token):
            raise self.expected(repr(token))

    def expected(self, what: str) -> ValueError:
        return ValueError(f"expected {what} before {' '.join(self._tokens[self._at : self._at + 4]) or 'the end'!r}")

    def columns(self, end: str) -> StructType:
        fields: list[StructField] = []
        while True:
            name = self.take()
            if not name or (name in "<>(),:" and self._at - 1 not in self._quoted):
                self._at -= 1
                raise self.expected("a name")
            self.skip(":")
            kind = self.kind()
            is_nullable = True
            if self.skip("not"):
                self.require("null")
                is_nullable = False
            fields.append(StructField(name, kind, is_nullable))
            if not self.skip(","):
                break
        if end:
            self.require(end)
        return StructType(fields)

    def kind(self) -> DataType:
        word = self.take().lower()
        if word in _PLAIN:
            return _PLAIN[word]
        if word in _DECIMALS:
            return self._decimal()
        if word == "array":
            self.require("<")
            found: DataType = ArrayType(self.kind())
            self.require(">")
            return found
        if word == "map":
            self.require("<")
            key = self.kind()
            self.require(",")
            found = MapType(key, self.kind())
            self.require(">")
            return found
        if word == "struct":
            self.require("<")
            return self.columns(">")
        self._at -= 1
        raise self.expected("a type")

    def _decimal(self) -> DecimalType:
        if not self.skip("("):
            return DecimalType(10, 0)
        precision = int(self.take())
        scale = int(self.take()) if self.skip(",") else 0
        self.require(")")
        return DecimalType(precision, scale)
