"""Reads what is not in memory: in threads of its own, a few at a time, so that nobody else waits for the disk."""

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from kerolox.runtime.blocking import OwnThreads
from kerolox.runtime.files import File
from kerolox.store.errors import StoreError
from kerolox.store.log.segments import Brought, NotInMemory, OpenFiles, Span

R = TypeVar("R")

# After so many journeys to the disk the rest is waited for; it takes two, of a queue and of the log, unless files are
# deleted or much is missing meanwhile.
_ROUNDS_MAX = 16


class ColdReads:
    """The threads are not those that sync: a disk that hangs on an old message must not hold up senders."""

    def __init__(self, files: OpenFiles, threads_max: int) -> None:
        self._files = files
        self._threads = OwnThreads("cold reads", threads_max)

    async def read(self, read: Callable[[Brought | None], R], missing: NotInMemory) -> R:
        """Returns what `read` returns when it is given what it missed; StoreError if the disk does not give that."""
        brought: dict[Span, bytes] = {}
        for _ in range(_ROUNDS_MAX):
            brought.update(await self._bring(missing.spans))
            try:
                return read(brought)
            except NotInMemory as more:
                missing = more
        return read(None)

    def close(self) -> None:
        self._threads.close()

    async def _bring(self, spans: Sequence[Span]) -> Brought:
        held: list[tuple[Span, File]] = []
        try:
            for span in spans:
                # One that was deleted meanwhile is no longer asked for.
                with contextlib.suppress(FileNotFoundError):
                    held.append((span, self._files.hold(span.path)))
            return await self._threads.run(_read_all, held)
        except OSError as error:
            raise StoreError(f"what is not in memory could not be read: {error}") from error
        finally:
            for _, file in held:
                self._files.release(file)


def _read_all(held: Sequence[tuple[Span, File]]) -> Brought:
    return {span: _read(span, file) for span, file in held}


def _read(span: Span, file: File) -> bytes:
    if not span.is_view:
        return file.read(span.offset, span.size)
    file.bring(span.offset, span.size)
    return b""
