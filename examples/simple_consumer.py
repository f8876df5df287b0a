"""Receives messages for a limited time and acknowledges each (POP, brokers of 5.x). `simple_consumer.py [NAMESRV]`"""

import asyncio

from anywhere import run

from kerolox.client import ConsumeFrom, Message, Producer, SimpleConsumer

JOBS = 5


async def main(namesrv_addr: str) -> None:
    async with Producer("shop", namesrv_addr=namesrv_addr) as producer:
        for number in range(JOBS):
            await producer.send(Message("jobs", b"%d" % number))

    # Any number of workers can take part, since queues are not assigned to consumers.
    async with SimpleConsumer(
        "workers", topics="jobs", consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=namesrv_addr
    ) as consumer:
        done: set[int] = set()
        async with asyncio.timeout(60):
            while len(done) < JOBS:
                for message in await consumer.receive(2, invisible_seconds=30, wait_seconds=5):
                    if message.body == b"3" and message.reconsume_times == 0:
                        # Not now: make it visible again in a second, for any worker.
                        await consumer.change_invisible(message, 1)
                        continue
                    await consumer.ack(message)
                    done.add(int(message.body))
                    print(f"job {message.body.decode()} done, attempt {message.reconsume_times + 1}")
    print(f"all {JOBS} jobs are done")


if __name__ == "__main__":
    run(main)
