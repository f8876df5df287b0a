"""Fixtures of the timer's tests."""

import pytest

from tests.store.timer.timers import Bench, no_threads


@pytest.fixture(autouse=True)
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    no_threads(monkeypatch)


@pytest.fixture
def bench() -> Bench:
    return Bench().open()
