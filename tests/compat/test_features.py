"""Features of four clients work with our servers; every cell of the table is run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from kerolox.errors import KeroloxError
from tests.apache import VERSIONS
from tests.apache.processes import Process, java_command, running, temporary_home
from tests.compat.features import FEATURES, Pair, open_pair, topic_of
from tests.compat.foreign_clients import ali_ons_command, cpp_command
from tests.compat.table import Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_RUN_SECONDS = 400.0
_PAUSE_SECONDS = 0.1


def _java(version: str, home: Path, *arguments: str) -> list[str]:
    return java_command(version, home, "Features.java", *arguments)


_CLIENTS: dict[str, Callable[..., list[str]]] = {
    **{f"Java {version}": partial(_java, version) for version in VERSIONS},
    "C++ 0.4.4": lambda home, *arguments: cpp_command("cpp_features.py", *arguments),
    "ali-ons 3.12": lambda home, *arguments: ali_ons_command("ali_ons_features.js", *arguments),
}
# A developer can select features, separated by semicolons.
_SELECTED = tuple(filter(None, os.environ.get("KEROLOX_COMPAT_FEATURES", "").split(";"))) or FEATURES


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a feature in a client: ok, failed, or absent, with the missing API as evidence."""

    state: str
    detail: str


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with open_pair(VERSIONS[-1]) as pair:
        yield pair


@pytest.fixture(scope="module", params=_CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def outcomes(pair: Pair, client: str) -> dict[str, Outcome]:
    """Results of all features of a client, from one run of it."""
    prefix = _prefix(client)
    asyncio.run(pair.make_topics(prefix, _SELECTED))
    asyncio.run(pair.limit_retries(f"{topic_of(prefix, 'retry to DLQ')}_group", 2))
    with temporary_home() as home:
        command = _CLIENTS[client](home, pair.namesrv, prefix, *_SELECTED)
        with running(command, home) as process:
            printed = _run_to_end(process, pair)
    print(printed)
    lines = [line.split("\t") for line in printed.splitlines() if line.count("\t") == 2]
    return {feature: Outcome(state, detail) for feature, state, detail in lines}


def _prefix(client: str) -> str:
    return client.replace(" ", "_").replace(".", "_").replace("+", "p")


def _run_to_end(process: Process, pair: Pair) -> str:
    """Reset offsets when the client program asks for it; return its output when it ends."""
    done = 0
    deadline = time.monotonic() + _RUN_SECONDS
    while process.is_running and time.monotonic() < deadline:
        requests = [line.split("\t")[2] for line in process.output().splitlines() if line.startswith("please\treset\t")]
        for topic_and_group in requests[done:]:
            topic, group = topic_and_group.split(" ")
            # If this fails, the feature times out and its cell shows it; the other features continue.
            with contextlib.suppress(KeroloxError):
                asyncio.run(pair.reset(topic, group))
        done = len(requests)
        time.sleep(_PAUSE_SECONDS)
    return process.output()


@pytest.mark.parametrize("feature", _SELECTED)
def test_a_feature_works(pair: Pair, client: str, outcomes: dict[str, Outcome], table: Table, feature: str) -> None:
    with table.cell(feature, client) as cell:
        outcome = outcomes.get(feature) or Outcome("failed", "the client ended before this feature")
        cell.result = "not in this client" if outcome.state == "absent" else outcome.detail
        assert outcome.state in ("ok", "absent"), outcome.detail
        if feature == "send keyed":
            assert asyncio.run(pair.count_by_key(topic_of(_prefix(client), feature), "first3")) == 1
