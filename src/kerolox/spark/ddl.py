"""A parser for schemas in Spark's DDL, `id BIGINT, tags ARRAY<STRING>`, that needs no JVM.

Spark's own parser runs in the JVM, but Spark asks a data source for its schema in a process without one.
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
    """Return the columns; ValueError says what was expected, and where."""
    parser = _Parser(text)
    columns = parser.columns("")
    if parser.peek():
        raise parser.expected("the end")
    return columns


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        # Positions of names in backquotes, which are never keywords.
        self._quoted: set[int] = set()
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text[at : at + 20]!r} is neither a name nor a type")
            quoted, word, symbol = match.groups()
            if quoted is not None:
                self._quoted.add(len(self._tokens))
            self._tokens.append(quoted.replace("``", "`") if quoted is not None else word or symbol)
            at = match.end()
        self._at = 0

    def peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._at += 1
        return token

    def skip(self, token: str) -> bool:
        is_match = self.peek().lower() == token and self._at not in self._quoted
        self._at += is_match
        return is_match

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
