"""Declares custom headers: a line per field yields codec, names and required fields (CommandCustomHeader)."""

from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import msgspec

from kerolox.codes import RequestCode
from kerolox.errors import ProtocolError, SystemFailure

# The fields of a header before decoding: JSON, or text by name from a binary header.
ExtFields = msgspec.Raw | dict[str, str] | None

_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


def named(name: str, default: Any = msgspec.NODEFAULT) -> Any:
    """Declare a field whose name on the wire differs from its name in camelCase."""
    return msgspec.field(name=name, default=default)


class _HeaderMeta(msgspec.StructMeta):
    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        code: RequestCode | None = None,
        kw_only: bool = True,
    ) -> type:
        cls: Any = super().__new__(mcls, name, bases, namespace, rename="camel", kw_only=kw_only, gc=False)
        cls._decoder = msgspec.json.Decoder(cls, strict=False)
        cls._names = tuple(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))
        if code is not None:
            cls.code = code
            cls.answer = next(get_args(base)[0] for base in namespace["__orig_bases__"] if get_args(base))
        return cls  # type: ignore[no-any-return]


class Header(msgspec.Struct, metaclass=_HeaderMeta):
    """The fields of a request or response. On the wire each value is text: `7`, `true`, `TopicTest`."""

    _decoder: ClassVar[Any]
    _names: ClassVar[tuple[tuple[str, str], ...]]

    @classmethod
    def decode(cls, fields: ExtFields) -> Self:
        """Return the decoded header; SystemFailure with the name of the field if one is invalid."""
        try:
            if isinstance(fields, msgspec.Raw):
                header: Self = cls._decoder.decode(fields)
                return header
        except _DECODE_ERRORS:
            # Some clients send numbers for text fields, or null for unset ones: retry with every value as text.
            pass
        try:
            return msgspec.convert(ext_text(fields), cls, strict=False)
        except (*_DECODE_ERRORS, ProtocolError) as error:
            raise SystemFailure(f"bad header of {cls.__name__}: {error}") from error

    def ext(self) -> dict[str, str]:
        """Return the fields as text, without those that are None."""
        return {
            name: value if type(value) is str else _text(value)
            for field, name in self._names
            if (value := getattr(self, field)) is not None
        }

    def written(self) -> bytes | None:
        """Return the fields as JSON without braces, if the header has a fast encoder; else None."""
        return None


A = TypeVar("A", bound=Header)


class Request(Header, Generic[A]):
    """The header of a request whose response has the header `A`."""

    code: ClassVar[RequestCode]
    answer: ClassVar[type[Header]]


class Empty(Header):
    """A response without fields."""


def ext_text(fields: ExtFields) -> dict[str, str]:
    """Return every field as text by name, whatever JSON type it had; ProtocolError if that is malformed."""
    if fields is None:
        return {}
    if isinstance(fields, dict):
        return fields
    try:
        raw = msgspec.json.decode(fields)
        if not isinstance(raw, dict):
            return {}
        return {name: _text(value) for name, value in raw.items() if value is not None}
    except _DECODE_ERRORS as error:
        raise ProtocolError(f"fields cannot be read: {error}") from error


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return msgspec.json.encode(value).decode()
