"""Two brokers as processes, one of which stops, dies or starts anew under load: nobody who sends need know."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from kerolox.client import Message, Producer, SendResult
from tests.apache.processes import Process
from tests.apache.servers import broker_port
from tests.client.brokers import Stage
from tests.client.producer.producing import producing
from tests.compat.brokers import kerolox_broker

TASKS = 32
# What is promised for a broker that stops, with default settings.
GAP_SECONDS_MAX = 3.0


class Load:
    """Tasks that send one message after the other, until told to stop."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._is_ending = False
        self._loop = asyncio.get_running_loop()
        self.results: list[SendResult] = []
        self.times: list[float] = []

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._send()) for _ in range(TASKS)]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._is_ending = True
        # Whatever was not sent within its time raises here.
        await asyncio.gather(*self._tasks)

    async def _send(self) -> None:
        while not self._is_ending:
            self.results.append(await self._producer.send(Message("orders", b"body")))
            self.times.append(self._loop.time())

    async def until_sent_to(self, *brokers: str, count: int = 200) -> None:
        """Returns when so many more messages have arrived, some of them at each of these brokers."""
        start = len(self.results)
        async with asyncio.timeout(30):
            while not self._is_sent(start, brokers, count):
                await asyncio.sleep(0.01)

    def _is_sent(self, start: int, brokers: tuple[str, ...], count: int) -> bool:
        later = self.results[start:]
        return len(later) >= count and {result.queue.broker_name for result in later} >= set(brokers)

    @property
    def longest_gap_seconds(self) -> float:
        return max(later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False))


class Pair:
    def __init__(self, stage: Stage, directory: Path, stack: ExitStack) -> None:
        self._stage = stage
        self._directory = directory
        self._stack = stack
        self._ports = {"broker-a": broker_port(), "broker-b": broker_port()}

    def start(self, name: str) -> Process:
        return self._stack.enter_context(
            kerolox_broker(self._stage.namesrv_addr, name=name, port=self._ports[name], store=self._directory / name)
        )


@asynccontextmanager
async def pair(stage: Stage, directory: Path) -> AsyncIterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stage, directory, stack)


async def test_a_broker_that_stops_and_goes_on_is_not_noticed_by_those_who_send(stage: Stage, tmp_path: Path) -> None:
    async with pair(stage, tmp_path) as brokers, producing(stage) as producer:
        first = await asyncio.to_thread(brokers.start, "broker-a")
        await asyncio.to_thread(brokers.start, "broker-b")
        async with Load(producer) as load:
            await load.until_sent_to("broker-a", "broker-b")
            first.stop()
            await load.until_sent_to("broker-b", count=1000)
            first.resume()
            await load.until_sent_to("broker-a", "broker-b")

    assert load.longest_gap_seconds < GAP_SECONDS_MAX


async def test_a_broker_that_is_killed_is_not_noticed_by_those_who_send(stage: Stage, tmp_path: Path) -> None:
    async with pair(stage, tmp_path) as brokers, producing(stage) as producer:
        first = await asyncio.to_thread(brokers.start, "broker-a")
        await asyncio.to_thread(brokers.start, "broker-b")
        async with Load(producer) as load:
            await load.until_sent_to("broker-a", "broker-b")
            first.kill()
            await load.until_sent_to("broker-b", count=1000)

    assert load.longest_gap_seconds < GAP_SECONDS_MAX


async def test_brokers_that_start_anew_one_after_the_other_are_not_noticed(stage: Stage, tmp_path: Path) -> None:
    order = ("broker-a", "broker-b")
    # By default, that a broker is back would be known after half a minute, as in Java.
    soon = {"poll_name_server_interval_seconds": 0.2}
    async with pair(stage, tmp_path) as brokers, producing(stage, **soon) as producer:
        running = {name: await asyncio.to_thread(brokers.start, name) for name in order}
        async with Load(producer) as load:
            await load.until_sent_to(*order)
            for name in order:
                await asyncio.to_thread(running[name].terminate)
                running[name] = await asyncio.to_thread(brokers.start, name)
                await load.until_sent_to(*order)

    assert load.longest_gap_seconds < GAP_SECONDS_MAX
