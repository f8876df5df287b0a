"""Lets rows through at a rate."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

# Rows are let through in so many portions a second, if there are as many.
_PORTIONS: Final = 10


@dataclass(frozen=True)
class Pace:
    """Takes and gives batches of Arrow; it travels to the workers, and each of them counts for itself."""

    rows_per_second: float
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        portion = max(1, int(self.rows_per_second / _PORTIONS))
        begun, done = self.now(), 0
        for batch in batches:
            for first in range(0, batch.num_rows, portion):
                part = batch.slice(first, portion)
                early = begun + done / self.rows_per_second - self.now()
                if early > 0:
                    self.sleep(early)
                yield part
                done += part.num_rows
