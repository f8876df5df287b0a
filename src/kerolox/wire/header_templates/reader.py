"""The one reader of headers by template, alone or many at once; it decides what is learnt, and what is remembered.

A header alone is read by a regular expression if it is binary (`single.py`). JSON needs none: msgspec decodes it as
fast. Many headers of sends in either serialization are read as columns if they are equal but for four values
(`columns.py`). A header that no template matches is decoded, and others may be learnt from it.
"""

from collections.abc import Sequence
from typing import Any

from kerolox.wire.header import Request
from kerolox.wire.header_templates.columns import EqualHeaders, HeaderColumns, compile_columns
from kerolox.wire.header_templates.single import (
    CODE_SIZE,
    FIXED_SIZE,
    VARYING,
    Known,
    SingleTemplate,
    compile_single,
    usual_fields,
)

# Regular expressions per request code: clients of one language and release write the same fields.
_VARIANTS_MAX = 8
# This many requests pass before another template is learnt: compiling a regular expression takes 0.5 ms.
_WAIT_COUNT_MIN, _WAIT_COUNT_MAX = 16, 4096
# The bytes that a template or a decoded request may keep of a header.
_SIZE_MAX = 1024
# This many bytes after the fixed part of a header tell producers and topics apart.
_KEY_SIZES = (256, 128, 64, 32, 16)
# A template that failed this many times in a row is forgotten.
_MISSES_MAX = 4


class HeaderTemplates:
    """The templates of a router.

    Whatever is used stays, however many other headers arrive: the least recently used is forgotten first.
    """

    def __init__(
        self, *, requests_max: int = 4096, columns_max: int = 512, wait_count_max: int = _WAIT_COUNT_MAX
    ) -> None:
        # By code: the templates, the latest first, and at most `requests_max` decoded requests.
        self._single: dict[bytes, tuple[list[SingleTemplate], _Requests]] = {}
        self._requests_max = requests_max
        self._single_pace = _Pace(wait_count_max)
        # By header size and beginning, the least recently used first.
        self._columns: dict[tuple[int, bytes], HeaderColumns] = {}
        self._columns_max = columns_max
        self._columns_pace = _Pace(wait_count_max)
        self._newest: HeaderColumns | None = None

    def read(self, header: bytes) -> Known | None:
        """Return a decoded binary header if a template matches it, else None."""
        variants, requests = self._single.get(header[:CODE_SIZE], _NOTHING)
        for template in variants:
            known = template.read(header, requests)
            if known is not None:
                if template is not variants[0] and variants.index(template) >= _VARIANTS_MAX // 2:
                    # Not with each use: clients of two languages may take turns.
                    variants.remove(template)
                    variants.insert(0, template)
                return known
        return None

    def learn(self, header: bytes, request: Request[Any], language: str | int | None) -> None:
        """Learn from a decoded binary header, so that `read` decodes others like it."""
        varying = VARYING.get(type(request))
        fields = None if varying is None else usual_fields(header, request, varying)
        if fields is None:
            return
        code = header[:CODE_SIZE]
        variants, requests = self._single.get(code, _NOTHING)
        template = next((known for known in variants if known.match(header)), None)
        if template is None and self._single_pace.is_due(1):
            template = compile_single(header, request, fields, language)
            if not variants:
                variants, requests = self._single[code] = [], _Requests(self._requests_max // 2)
            variants[:] = (template, *variants[: _VARIANTS_MAX - 1])
        learnt = None if template is None else template.blank(header, request)
        if learnt is not None and len(learnt[0]) <= _SIZE_MAX:
            requests.remember(*learnt)

    def read_columns(self, serializations: Sequence[int], headers: Sequence[bytes]) -> EqualHeaders | None:
        """Return the columns of headers if a template matches all of them, else None."""
        key = self._find(headers[0])
        if key is None:
            return None
        # A template that raises an exception is not tried again.
        template = self._columns.pop(key)
        equal = template.read(serializations, headers)
        if template.miss_count < _MISSES_MAX:
            self._columns[key] = template
        if equal is not None and template is self._newest:
            self._columns_pace.quicken()
        return equal

    def _find(self, header: bytes) -> tuple[int, bytes] | None:
        size = len(header)
        for key_size in _KEY_SIZES:
            key = size, header[FIXED_SIZE : FIXED_SIZE + key_size]
            if key in self._columns:
                return key
        return None

    def learn_columns(self, header: bytes, request: Any, count: int) -> None:
        """Learn from the first of `count` headers that were decoded, so that `read_columns` reads others like it.

        The request is kept as it is; its opaque, serialization and header are read.
        """
        if len(header) > _SIZE_MAX or not self._columns_pace.is_due(count):
            return
        template = compile_columns(header, request)
        key_size = 0 if template is None else next((n for n in _KEY_SIZES if n <= len(template.beginning)), 0)
        if template is not None and key_size:
            if len(self._columns) >= self._columns_max:
                del self._columns[next(iter(self._columns))]
            self._columns[len(header), template.beginning[:key_size]] = self._newest = template


class _Pace:
    """When the next template may be learnt: ever new headers must not keep the server busy with learning.

    The number of requests between two templates doubles each time, up to the maximum.
    """

    def __init__(self, wait_count_max: int) -> None:
        self._max = wait_count_max
        self._wait_count, self._next = 0, _WAIT_COUNT_MIN

    def is_due(self, count: int) -> bool:
        """Count requests that no template matched; whether to learn now."""
        self._wait_count -= count
        if self._wait_count > 0:
            return False
        self._wait_count = min(self._next, self._max)
        self._next = min(2 * self._next, self._max)
        return True

    def quicken(self) -> None:
        """Begin again with short waits: the template that was learnt last is in use."""
        self._next = _WAIT_COUNT_MIN


class _Requests(dict[bytes, Request[Any] | None]):
    """Decoded requests by constant bytes, in two generations: those in use move on to the next one."""

    def __init__(self, count_max: int) -> None:
        super().__init__()
        self._max = count_max
        self._older: dict[bytes, Request[Any] | None] = {}

    def __missing__(self, constant: bytes) -> Request[Any] | None:
        found = self._older.get(constant)
        if found is not None:
            self.remember(constant, found)
        return found

    def remember(self, constant: bytes, request: Request[Any]) -> None:
        if len(self) >= self._max:
            self._older = dict(self)
            self.clear()
        self[constant] = request


_NOTHING: tuple[list[SingleTemplate], _Requests] = [], _Requests(0)
