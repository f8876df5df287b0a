"""Reads that miss the page cache, in a small thread pool, so that the event loop never waits for the disk."""

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from kerolox.runtime.files import File
from kerolox.runtime.threads import ThreadPool
from kerolox.store.errors import StoreError
from kerolox.store.log.segments import Fetched, NotInMemory, OpenFiles, Span

R = TypeVar("R")

# Fetches per read before the rest is read on the event loop. Two are usual, one for the queue and one for the log; more
# if files are deleted meanwhile or pages are evicted again.
_ROUNDS_MAX = 16


class ColdReads:
    """Runs reads for clients, which must not wait for the disk on the event loop.

    It uses its own threads, not those of syncs: a slow read of an old message must not delay sends.
    """

    def __init__(self, files: OpenFiles, threads_max: int) -> None:
        self._files = files
        self._threads = ThreadPool("cold reads", threads_max)
        # The read without its wait: NotInMemory if the disk is needed. For callers that suspend only then.
        self.in_memory = files.in_memory

    async def read(self, read: Callable[[], R], missing: NotInMemory | None = None) -> R:
        """Return `read()`, a plain function over the store; what it misses in memory is fetched, and it is repeated.

        Does not suspend if everything is in memory. `missing` is what a call of `in_memory` just missed. StoreError if
        the disk cannot be read.
        """
        fetched: dict[Span, bytes] = {}
        for _ in range(_ROUNDS_MAX):
            if missing is not None:
                fetched.update(await self._fetch(missing.spans))
            try:
                return self.in_memory(read, fetched)
            except NotInMemory as more:
                missing = more
        return read()

    def close(self) -> None:
        self._threads.close()

    async def _fetch(self, spans: Sequence[Span]) -> Fetched:
        held: list[tuple[Span, File]] = []
        try:
            for span in spans:
                # A file deleted meanwhile is not read again: its records have expired.
                with contextlib.suppress(FileNotFoundError):
                    held.append((span, self._files.hold(span.path)))
            return await self._threads.run(_read_all, held)
        except OSError as error:
            raise StoreError(f"reading from the disk failed: {error}") from error
        finally:
            for _, file in held:
                self._files.release(file)


def _read_all(held: Sequence[tuple[Span, File]]) -> Fetched:
    return {span: _read(span, file) for span, file in held}


def _read(span: Span, file: File) -> bytes:
    if not span.is_view:
        return file.read(span.offset, span.size)
    file.prefetch(span.offset, span.size)
    return b""
