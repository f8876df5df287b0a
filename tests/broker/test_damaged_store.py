"""Consumers of a broker whose derived files were damaged while it was stopped."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kerolox.broker import Broker
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from tests.broker.brokers import BrokerFixture, settings

MESSAGES = 90
QUEUES = 3


def swap_queues(store: Path) -> None:
    queues = store / "consumequeue" / "orders"
    (queues / "0").rename(queues / "x")
    (queues / "1").rename(queues / "0")
    (queues / "x").rename(queues / "1")


def write_garbage(store: Path) -> None:
    file = next((store / "consumequeue" / "orders" / "1").iterdir())
    content = bytearray(file.read_bytes())
    content[100:300] = b"\x55" * 200
    file.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(swap_queues, id="queues are swapped"),
        pytest.param(write_garbage, id="200 bytes of garbage"),
        pytest.param(lambda store: shutil.rmtree(store / "consumequeue" / "orders" / "2"), id="a queue is missing"),
        pytest.param(lambda store: shutil.rmtree(store / "consumequeue"), id="all queues are missing"),
        pytest.param(lambda store: (store / "config" / "topics.json").unlink(), id="topics.json is missing"),
        pytest.param(lambda store: shutil.rmtree(store / "config"), id="all tables are missing"),
        pytest.param(lambda store: (store / "timerwheel").write_bytes(b"short"), id="the timer wheel is cut"),
        pytest.param(lambda store: next((store / "index").iterdir()).write_bytes(b"short"), id="the index is cut"),
    ],
)
async def test_consumers_get_every_message_after_derived_files_were_damaged(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    async with Broker(settings(tmp_path)) as started, Client() as client:
        broker = BrokerFixture(started, client)
        for number in range(MESSAGES):
            await broker.send("orders", b"%d" % number, number % QUEUES)
    for backup in (tmp_path / "config").glob("*.bak"):
        backup.unlink()
    damage(tmp_path)

    async with Broker(settings(tmp_path)) as started, Client() as client:
        broker = BrokerFixture(started, client)
        found: dict[int, list[bytes]] = {queue_id: [] for queue_id in range(QUEUES)}
        for queue_id, bodies in found.items():
            while len(bodies) < MESSAGES // QUEUES:
                pulled = await broker.pull("orders", len(bodies), queue_id)
                bodies += [message.body for message in decode_all(pulled.body)]

    assert found == {queue: [b"%d" % number for number in range(queue, MESSAGES, QUEUES)] for queue in range(QUEUES)}
    assert "rebuilt" in caplog.text or "restored" in caplog.text
