"""Our broker is killed repeatedly under load from Apache's client: no acknowledged message is lost."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kerolox.remoting.client import Client
from tests.apache import VERSIONS
from tests.apache.processes import Process, java_command, running, temporary_home
from tests.apache.servers import broker_port
from tests.compat.brokers import kerolox_broker
from tests.compat.name_servers import kerolox_name_server
from tests.compat.table import Part, Table
from tests.crash.kills import KILLS, QUEUES, Acknowledged, body_of, check, first_of, kill_repeatedly

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

_TOPIC = "killed"
_BROKER = "broker-mortal"
_ACKNOWLEDGED = re.compile(r"^acknowledged (\d+) (\d+) (\d+)$", re.MULTILINE)
_CATCH_UP_SECONDS = 60.0
# `make test` runs one version.
_VERSIONS = [pytest.param(version, marks=() if version == VERSIONS[-1] else pytest.mark.slow) for version in VERSIONS]


@pytest.mark.parametrize("version", _VERSIONS)
def test_a_killed_broker_loses_no_acknowledged_message(table: Table, tmp_path: Path, version: str) -> None:
    port = broker_port()
    stop = tmp_path / "stop"
    what = f"a broker of ours killed {KILLS} times under load: nothing lost, queues in order, consumer continues"
    with (
        table.row(Part.CLIENTS, what, version) as row,
        kerolox_name_server() as namesrv,
        temporary_home() as home,
    ):

        def start() -> AbstractContextManager[Process]:
            return kerolox_broker(namesrv.address, name=_BROKER, port=port, store=tmp_path / "store")

        with start() as broker:
            asyncio.run(_make_topic(broker.address))
        arguments = (namesrv.address, _TOPIC, _BROKER, str(QUEUES), str(stop))
        command = java_command(version, home, "Persist.java", *arguments)
        with running(command, home) as client:
            kill_repeatedly(start, lambda: client.output().count("acknowledged"))
            with start() as broker:
                started = time.monotonic()
                stop.touch()
                client.wait_for("consumed", _CATCH_UP_SECONDS)
                caught_up = time.monotonic() - started
                acknowledged = [Acknowledged(*map(int, groups)) for groups in _ACKNOWLEDGED.findall(client.output())]
                twice = asyncio.run(check(broker.address, _TOPIC, acknowledged))
        row.result = (
            f"{len(acknowledged)} acknowledged, none lost, {twice} stored twice by retries, "
            f"consumed {caught_up:.0f} s after the last start"
        )


async def _make_topic(address: str) -> None:
    async with Client() as client:
        await client.call(address, first_of(_TOPIC), body_of(0, 0))
