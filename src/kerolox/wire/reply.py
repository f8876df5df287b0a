"""An answer with its header decoded: what a processor returns and what a caller gets."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from kerolox.codes import ResponseCode
from kerolox.wire.header import Header

A = TypeVar("A", bound=Header)


class Reply(msgspec.Struct, Generic[A], gc=False):
    """`header` is None where the answer has no fields at all, which Java tells from one that has none set."""

    header: A | None = None
    body: bytes = b""
    code: int = ResponseCode.SUCCESS.value
    remark: str | None = None
    # The body of an answer that is to be sent, in parts, where to put them together would cost a copy.
    parts: Sequence[bytes | memoryview] = ()
    # Gives the body for the same question asked again; None once it can no longer say.
    again: Callable[[], bytes | None] | None = None

    @property
    def fields(self) -> A:
        """The header of an answer that has one."""
        assert self.header is not None, "this answer carries no fields"
        return self.header
