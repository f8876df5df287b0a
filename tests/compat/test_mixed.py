"""A broker of Apache's and one of ours in one cluster, with a NameServer of either kind."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.apache import VERSIONS, servers
from tests.apache.processes import run_java
from tests.compat.brokers import kerolox_broker
from tests.compat.features import Pair, topic_of
from tests.compat.name_servers import kerolox_name_server
from tests.compat.table import Part, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_COUNT = 64
_NAME_SERVERS = {"ours": lambda version: kerolox_name_server(), "Apache's": servers.name_server}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", _NAME_SERVERS)
def test_clients_use_both_brokers_of_a_mixed_cluster(table: Table, version: str, kind: str) -> None:
    what = f"a broker of Apache's and one of ours in one cluster, NameServer: {kind}"
    with (
        table.row(Part.BROKERS, what, version) as row,
        _NAME_SERVERS[kind](version) as namesrv,
        servers.broker(version, namesrv.address, name="broker-apache") as apache,
        kerolox_broker(namesrv.address, name="broker-kerolox") as ours,
    ):
        pair = Pair(namesrv.address, (apache, ours))
        asyncio.run(pair.make_topics("mixed", ["spread"]))
        topic = topic_of("mixed", "spread")

        sent = run_java(version, "Spread.java", namesrv.address, topic, str(_COUNT))

        assert "ended" in sent.stdout, sent
        lines = [line.split("\t") for line in sent.stdout.splitlines() if "\t" in line]
        counts = {kind: Counter(broker for what, broker, _ in lines if what == kind) for kind in ("sent", "consumed")}
        bodies = {kind: sorted(body for what, _, body in lines if what == kind) for kind in ("sent", "consumed")}
        assert bodies["consumed"] == bodies["sent"]
        assert len(bodies["sent"]) == _COUNT
        assert counts["consumed"] == counts["sent"] == {"broker-apache": _COUNT // 2, "broker-kerolox": _COUNT // 2}
        row.result = f"{_COUNT // 2} messages to each, all consumed"
