"""`kerolox top` on a cluster to which messages are sent."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from kerolox.admin.sync import AdminClient
from kerolox.cli.app import main
from kerolox.cli.commands import top
from kerolox.client.sync import ConsumeFrom, Message, Producer, PullConsumer
from kerolox.testing.plugin import RunningCluster


def test_rates_and_lag_are_shown(running: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    address = running.namesrv_addr
    with AdminClient(namesrv_addr=address) as admin, Producer("senders", namesrv_addr=address) as producer:
        admin.topics.create("orders", read_queues=1, write_queues=1)
        admin.groups.create("shop")
        producer.send([Message("orders", b"%d" % number) for number in range(10)])
        begin = ConsumeFrom.FIRST_OFFSET
        with PullConsumer("shop", topics="orders", namesrv_addr=address, consume_from=begin) as consumer:
            assert len(consumer.poll(4, timeout_seconds=20)) == 4

        async def meanwhile(seconds: float) -> None:
            await asyncio.to_thread(producer.send, [Message("orders", b"more")] * 5)

        monkeypatch.setattr(top, "pause", meanwhile)
        plain = CliRunner().invoke(main, ["top", "-c", "1", "-n", address], catch_exceptions=False)
        as_json = CliRunner().invoke(main, ["top", "-c", "2", "--json", "-n", address], catch_exceptions=False)

    orders = next(line.split() for line in plain.stdout.splitlines() if line.startswith("orders "))
    shop = next(line.split() for line in plain.stdout.splitlines() if line.startswith("shop "))
    assert float(orders[1]) > 0
    assert orders[2] == "15"
    assert shop == ["shop", "orders", "0", "0.0", "11", "never"]
    rows = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [row["messages"] for row in rows if row.get("topic") == "orders" and "messages" in row] == [20, 25]


def test_an_unreachable_cluster_is_reported_in_one_line() -> None:
    result = CliRunner().invoke(main, ["top", "-n", "127.0.0.1:1"])

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
