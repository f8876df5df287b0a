"""Apache's brokers in controller mode join our controller: they get ids, a master, and another when it is killed."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.client.sync import Message, Options, Producer
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.controller import ReplicasInfo
from tests.apache import servers
from tests.apache.processes import Process, free_port, running, temporary_home
from tests.apache.requirements import require_java
from tests.compat.name_servers import kerolox_name_server
from tests.compat.table import Part, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

_BROKER, _TOPIC = "broker-a", "replicated"
_MESSAGES = 200


@contextlib.contextmanager
def kerolox_controller() -> Iterator[Process]:
    port = free_port()
    with temporary_home() as home:
        command = [sys.executable, "-m", "kerolox", "controller", "--port", str(port), "--store", str(home / "groups")]
        with running(command, home, f"127.0.0.1:{port}") as process:
            process.wait_for("boot success")
            yield process


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 90) -> float:
    """Wait until the condition holds; return how long it took."""
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        with contextlib.suppress(KeroloxError, KeyError):
            if condition():
                return time.monotonic() - started
        time.sleep(0.1)
    pytest.fail(f"not within {seconds} s: {what}")


def test_brokers_of_5x_fail_over_with_our_controller(table: Table) -> None:
    require_java()
    what = "three brokers of Apache on our controller, master killed: another is elected, nothing acknowledged is lost"
    with contextlib.ExitStack() as stack:
        row = stack.enter_context(table.row(Part.BROKERS, what, "5.5.0"))
        namesrv = stack.enter_context(kerolox_name_server())
        controller = stack.enter_context(kerolox_controller())
        settings = {
            "enableControllerMode": "true",
            "controllerAddr": controller.address,
            "allAckInSyncStateSet": "true",
            "minInSyncReplicas": "2",
        }
        brokers = {}
        for _ in range(3):
            port = servers.broker_port()
            process = stack.enter_context(
                servers.broker("5.5.0", namesrv.address, name=_BROKER, port=port, properties=settings)
            )
            brokers[process.address] = process
        options = Options(namesrv_addr=namesrv.address, client_ip="127.0.0.1")
        admin = stack.enter_context(AdminClient(options=options))

        def info() -> ReplicasInfo:
            return admin.controllers.sync_state(controller.address, [_BROKER])[_BROKER]

        wait_for(lambda: len(info().in_sync_replicas) == 3, "three brokers in the sync state set")
        before = info()
        assert before.master_address is not None
        wait_for(lambda: admin.topics.create(_TOPIC) == [_BROKER], "a topic")
        acknowledged = [f"{number}" for number in range(_MESSAGES)]
        with Producer("senders", options=options) as producer:
            for text in acknowledged:
                wait_for(lambda text=text: _is_sent(producer, text), f"message {text}")  # type: ignore[misc]

        brokers[before.master_address].kill()
        seconds = wait_for(
            lambda: info().master_address not in (None, before.master_address), "another master", seconds=30
        )
        after = info()

        assert after.master_epoch > before.master_epoch
        assert after.master_broker_id in {it.broker_id for it in before.in_sync_replicas}
        wait_for(lambda: len(info().in_sync_replicas) == 2, "the survivor in the sync state set")
        wait_for(lambda: after.master_address in _masters(admin), "a route to the new master")
        # Apache's slaves copy topics every 10 s only, so the new master may not know it yet.
        wait_for(lambda: admin.topics.create(_TOPIC) == [_BROKER], "the topic on the new master")
        bodies = {message.body.decode() for message in admin.messages.read_topic(_TOPIC)}
        assert set(acknowledged) <= bodies
        row.result = f"another master after {seconds:.1f} s, {len(acknowledged)} acknowledged, none lost"


def _is_sent(producer: Producer, text: str) -> bool:
    producer.send(Message(_TOPIC, text.encode()))
    return True


def _masters(admin: AdminClient) -> set[str]:
    return {data.broker_addrs[0] for data in admin.cluster.info().broker_addr_table.values() if 0 in data.broker_addrs}
