"""A broker killed under load keeps acknowledged messages in order, and its clients recover by themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ParamSpec, TypeVar

from kerolox.errors import KeroloxError
from kerolox.remoting.client import Client
from kerolox.wire.headers.messages import Sent
from tests.apache.processes import Process
from tests.apache.servers import broker_port
from tests.compat.brokers import kerolox_broker
from tests.crash.kills import KILLS, QUEUES, Acknowledged, body_of, check, first_of, kill_repeatedly, pull

P = ParamSpec("P")
T = TypeVar("T")

_TOPIC = "killed"
_PAUSE_SECONDS = 0.01
_CATCH_UP_SECONDS = 30.0


async def test_a_broker_killed_twenty_five_times_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    port = broker_port()
    address = f"127.0.0.1:{port}"
    acknowledged: list[Acknowledged] = []
    consumed: list[list[bytes]] = [[] for _ in range(QUEUES)]
    ending = asyncio.Event()

    def start() -> AbstractContextManager[Process]:
        return kerolox_broker("", port=port, store=tmp_path)

    async with Client(connect_timeout_seconds=1.0) as client, asyncio.TaskGroup() as tasks:
        producers = [
            tasks.create_task(_produce(client, address, queue, acknowledged, ending)) for queue in range(QUEUES)
        ]
        consumers = [tasks.create_task(_consume(client, address, queue, consumed[queue])) for queue in range(QUEUES)]
        await asyncio.to_thread(kill_repeatedly, start, lambda: len(acknowledged))
        with start():
            ending.set()
            await asyncio.wait(producers)
            twice = await check(address, _TOPIC, acknowledged)
            deadline = time.monotonic() + _CATCH_UP_SECONDS
            while sum(map(len, consumed)) < len(acknowledged) + twice:
                assert time.monotonic() < deadline
                await asyncio.sleep(_PAUSE_SECONDS)
            for consumer in consumers:
                consumer.cancel()

    assert len(acknowledged) >= KILLS * QUEUES
    for it in acknowledged:
        assert consumed[it.queue_id][it.queue_offset] == body_of(it.queue_id, it.number)


async def _produce(
    client: Client, address: str, queue_id: int, acknowledged: list[Acknowledged], ending: asyncio.Event
) -> None:
    """Send a message until it is acknowledged, then the next."""
    number = 0
    while not ending.is_set():
        sent = await _insist(_send, client, address, queue_id, number)
        assert sent.queue_offset is not None
        acknowledged.append(Acknowledged(queue_id, number, sent.queue_offset))
        number += 1


async def _consume(client: Client, address: str, queue_id: int, bodies: list[bytes]) -> None:
    while True:
        messages = await _insist(pull, client, address, _TOPIC, queue_id, len(bodies))
        bodies += [message.body for message in messages]
        if not messages:
            await asyncio.sleep(_PAUSE_SECONDS)


async def _send(client: Client, address: str, queue_id: int, number: int) -> Sent:
    return (await client.call(address, first_of(_TOPIC, queue_id), body_of(queue_id, number))).fields


async def _insist(call: Callable[P, Awaitable[T]], *arguments: P.args, **names: P.kwargs) -> T:
    """Retry the call until a broker responds."""
    while True:
        try:
            return await call(*arguments, **names)
        except KeroloxError:
            await asyncio.sleep(_PAUSE_SECONDS)
