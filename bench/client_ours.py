"""client_ours.py NAMESRV TOPIC MODE BODY_SIZE WARM_UP SECONDS, or NAMESRV TOPIC push GROUP SKIP COUNT: our client.

Prints "measured COUNT SECONDS CPU_SECONDS" for the messages after the warm-up, which starts with the first response,
or for the messages after the first SKIP. Rates.java and cpp_rates.py do the same with the other clients.
"""

import asyncio
import sys
import time

from kerolox.client import ConsumeFrom, Message, Producer, PushConsumer, Received

AT_ONCE = 256
BATCH_SIZE = 16
TIMEOUT_SECONDS = 30.0


class Counter:
    """Counts messages, wall time and CPU time since the mark."""

    def __init__(self) -> None:
        self.count = 0
        self.mark()

    def mark(self) -> None:
        self._first, self._began, self._cpu = self.count, time.perf_counter(), time.process_time()

    def print(self) -> None:
        cpu, seconds = time.process_time() - self._cpu, time.perf_counter() - self._began
        print(f"measured {self.count - self._first} {seconds:.6f} {cpu:.6f}", flush=True)


async def send(namesrv: str, topic: str, mode: str, body_size: int, warm_up: float, seconds: float) -> None:
    counter, body = Counter(), b"x" * body_size
    has_ended = False

    async def send_one_by_one() -> None:
        while not has_ended:
            await producer.send(Message(topic, body))
            counter.count += 1

    async def send_batches() -> None:
        while not has_ended:
            await producer.send([Message(topic, body) for _ in range(BATCH_SIZE)])
            counter.count += BATCH_SIZE

    async with Producer(
        "bench_producer",
        namesrv_addr=namesrv,
        auto_batch=mode == "auto",
        send_timeout_seconds=TIMEOUT_SECONDS,
    ) as producer:
        work = send_batches if mode == "batches" else send_one_by_one
        senders = [asyncio.create_task(work()) for _ in range(AT_ONCE if mode in ("many", "auto") else 1)]
        while not counter.count:
            await asyncio.sleep(0.01)
        await asyncio.sleep(warm_up)
        counter.mark()
        await asyncio.sleep(seconds)
        counter.print()
        has_ended = True
        await asyncio.gather(*senders)


async def consume(namesrv: str, topic: str, group: str, skip: int, count: int) -> None:
    counter, is_complete = Counter(), asyncio.Event()
    size = 0

    async def handle(messages: list[Received]) -> None:
        nonlocal size
        for message in messages:
            size += len(message.body)
            counter.count += 1
            if counter.count == skip:
                counter.mark()
            elif counter.count == count:
                counter.print()
                is_complete.set()

    async with PushConsumer(group, handle, topics=topic, namesrv_addr=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET):
        await is_complete.wait()


if __name__ == "__main__":
    namesrv, topic, mode, *given = sys.argv[1:]
    if mode == "push":
        asyncio.run(consume(namesrv, topic, given[0], int(given[1]), int(given[2])))
    else:
        asyncio.run(send(namesrv, topic, mode, int(given[0]), float(given[1]), float(given[2])))
