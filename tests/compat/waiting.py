"""Waits for what another process will do: asks again until the deadline, and says how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable

_PAUSE_SECONDS = 0.1


def eventually(question: Callable[[], bool], timeout_seconds: float, what: str) -> float:
    """Returns after how many seconds `question` first answered yes; fails at the deadline."""
    started = time.monotonic()
    while not question():
        waited = time.monotonic() - started
        assert waited < timeout_seconds, f"{what}: not within {timeout_seconds} s"
        time.sleep(_PAUSE_SECONDS)
    return time.monotonic() - started
