"""Our clients in a notebook kernel, where an event loop is always running."""

from __future__ import annotations

import pytest

from kerolox.testing.plugin import RunningCluster
from tests.apache.processes import run, temporary_home
from tests.compat.foreign_clients import KERNEL, notebook_command
from tests.compat.table import Part, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

_BEGIN = "from kerolox.client import sync, Producer, Message, ConsumeFrom; first = ConsumeFrom.FIRST_OFFSET"


def test_clients_work_in_a_notebook_with_and_without_await(kerolox_cluster: RunningCluster, table: Table) -> None:
    where = f'namesrv_addr="{kerolox_cluster.namesrv_addr}"'
    cells = [
        _BEGIN,
        # The blocking client, kept open across cells.
        f'producer = sync.Producer("shop", {where}); producer.start()',
        'producer.send(Message("orders", b"blocking")).status.value',
        f'pull = sync.PullConsumer("readers", topics="orders", consume_from=first, {where}); pull.start()',
        "messages = iter(pull); print(next(messages).body)",
        # The client with await, on the event loop of the kernel.
        f'other = Producer("others", {where}); await other.start()',
        'print((await other.send(Message("orders", b"awaited"))).status.value)',
        "print(next(messages).body)",
        # Interrupting a cell cancels only its waiting call.
        "interrupt",
        'print("waiting", flush=True); next(messages)',
        'await other.send(Message("orders", b"after the interrupt")); print(next(messages).body)',
        "producer.close(); pull.close(); await other.close(); print('closed')",
    ]
    with table.row(Part.OUR_CLIENT, "works in a notebook, with await and without", KERNEL), temporary_home() as home:
        completed = run(notebook_command(*cells), home, timeout_seconds=120)

    assert completed.stdout.splitlines() == [
        "'SEND_OK'",
        "b'blocking'",
        "SEND_OK",
        "b'awaited'",
        "waiting",
        "raised KeyboardInterrupt ",
        "b'after the interrupt'",
        "closed",
    ], completed
