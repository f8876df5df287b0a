"""A response with a decoded header: returned by processors, and received by callers."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from kerolox.codes import ResponseCode
from kerolox.wire.header import Header

A = TypeVar("A", bound=Header)


class Reply(msgspec.Struct, Generic[A], gc=False):
    """A response. `header` is None if it has no fields at all, which Java distinguishes from unset fields."""

    header: A | None = None
    body: bytes = b""
    code: int = ResponseCode.SUCCESS.value
    remark: str | None = None
    # The body in parts, to avoid the copy that joining them would cost.
    parts: Sequence[bytes | memoryview] = ()
    # Returns the current body if the same request comes again, or None; makes the response cacheable.
    again: Callable[[], bytes | None] | None = None

    @property
    def fields(self) -> A:
        """The header of a response that has one."""
        assert self.header is not None, "the response has no fields"
        return self.header
