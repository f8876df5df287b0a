"""Limits the rate of rows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

# Rows are passed on in this many portions a second.
_PORTIONS_PER_SECOND: Final = 10


@dataclass(frozen=True)
class RateLimit:
    """A function for mapInArrow that delays rows; pickled to the workers, each of which applies the rate by itself."""

    rows_per_second: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        portion = max(1, int(self.rows_per_second / _PORTIONS_PER_SECOND))
        started, done = self.now(), 0
        for batch in batches:
            for first in range(0, batch.num_rows, portion):
                part = batch.slice(first, portion)
                early = started + done / self.rows_per_second - self.now()
                if early > 0:
                    self.sleep(early)
                yield part
                done += part.num_rows
