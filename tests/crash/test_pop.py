"""A broker killed repeatedly under load loses no popped message and redelivers very few."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from kerolox.broker.pop.receipt_handle import ReceiptHandle
from kerolox.errors import KeroloxError
from kerolox.message.message import Message
from kerolox.remoting.client import Client
from kerolox.wire.headers.pop import AckMessage
from tests.apache.processes import Process
from tests.apache.servers import broker_port
from tests.broker.pop.pops import GROUP, popping, real, received
from tests.compat.brokers import kerolox_broker
from tests.crash.kills import QUEUES, first_of, kill_repeatedly
from tests.crash.proofs import record_proof

# `make chaos` asks for more.
KILLS = int(os.environ.get("KEROLOX_POP_KILLS", "4"))
DELIVERIES_MAX = 1.1
_TOPIC = "popped"
_BROKER = "broker-a"
_INVISIBLE_SECONDS = 6.0
_POLL_MILLIS = 500
_CONSUMERS = 4
_PAUSE_SECONDS = 0.01
# Time after the last delivery in which a redelivery is possible: invisible time plus delays of timer and revive.
_QUIET_SECONDS = _INVISIBLE_SECONDS + 6.0
_DRAIN_SECONDS = 120.0


@dataclass(slots=True)
class Load:
    """Producers and consumers of one broker, and the responses they received."""

    client: Client
    address: str
    stored: set[bytes] = field(default_factory=set)
    delivered: Counter[bytes] = field(default_factory=Counter)
    acknowledged: set[bytes] = field(default_factory=set)
    last_delivery: float = 0.0
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def produce(self, queue_id: int) -> None:
        """Send unique messages, so that a failed send is not mistaken for another."""
        for number in count():
            if self.ending.is_set():
                return
            body = b"%d %d" % (queue_id, number)
            try:
                await self.client.call(self.address, first_of(_TOPIC, queue_id), body)
                self.stored.add(body)
            except KeroloxError:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def consume(self) -> None:
        invisible_millis = round(_INVISIBLE_SECONDS * 1000)
        request = popping(_TOPIC, poll_time=_POLL_MILLIS, invisible_time=invisible_millis)
        while True:
            try:
                reply = await self.client.call(self.address, request)
            except KeroloxError:
                # No message, or no broker.
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            popped = received(reply, _BROKER)
            self.delivered.update(message.body for message, _ in popped)
            self.last_delivery = time.monotonic()
            await asyncio.gather(*(self._acknowledge(message, receipt) for message, receipt in popped))

    async def _acknowledge(self, message: Message, receipt: ReceiptHandle) -> None:
        """Retry the ack until a broker responds."""
        request = AckMessage(
            consumer_group=GROUP,
            topic=real(_TOPIC, receipt, GROUP),
            queue_id=receipt.queue_id,
            extra_info=str(receipt),
            offset=message.queue_offset,
        )
        while True:
            try:
                await self.client.call(self.address, request)
            except KeroloxError:
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self.acknowledged.add(message.body)
                return

    async def drain(self) -> None:
        """Return when all stored messages are acked and no redelivery is possible."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        while lost := self.stored - self.acknowledged:
            assert time.monotonic() < deadline, f"{len(lost)} of {len(self.stored)} messages did not come"
            await asyncio.sleep(_PAUSE_SECONDS)
        while time.monotonic() < self.last_delivery + _QUIET_SECONDS:
            await asyncio.sleep(_PAUSE_SECONDS)


async def test_a_broker_killed_while_groups_pop_loses_nothing_and_repeats_next_to_nothing(tmp_path: Path) -> None:
    port = broker_port()

    def start() -> AbstractContextManager[Process]:
        return kerolox_broker("", name=_BROKER, port=port, store=tmp_path)

    async with Client(connect_timeout_seconds=1.0) as client, asyncio.TaskGroup() as tasks:
        load = Load(client, f"127.0.0.1:{port}")
        producers = [tasks.create_task(load.produce(queue_id)) for queue_id in range(QUEUES)]
        consumers = [tasks.create_task(load.consume()) for _ in range(_CONSUMERS)]
        await asyncio.to_thread(kill_repeatedly, start, lambda: len(load.acknowledged), KILLS)
        with start():
            load.ending.set()
            await asyncio.wait(producers)
            await load.drain()
            for consumer in consumers:
                consumer.cancel()

    deliveries = sum(load.delivered[body] for body in load.acknowledged)
    record_proof("pop", runs=KILLS, promised=len(load.acknowledged), deliveries=deliveries)
    assert len(load.stored) >= KILLS * QUEUES
    assert deliveries < DELIVERIES_MAX * len(load.acknowledged)
