"""Pulls messages: by iteration with a group, and from any offset of a queue. `pull_consumer.py [NAMESRV]`"""

import asyncio

from anywhere import run

from kerolox.client import ConsumeFrom, Message, Producer, PullConsumer

COUNT = 10


async def main(namesrv_addr: str) -> None:
    async with Producer("shop", namesrv_addr=namesrv_addr) as producer:
        sent = [await producer.send(Message("pull-orders", b"%d" % number), order_by="all") for number in range(COUNT)]

    # A message counts as consumed once the next one is requested.
    async with PullConsumer(
        "readers", topics="pull-orders", consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=namesrv_addr
    ) as consumer:
        numbers: list[int] = []
        async with asyncio.timeout(60):
            async for message in consumer:
                numbers.append(int(message.body))
                if len(numbers) == COUNT:
                    break
        print(f"the group read {numbers}")

    # Without rebalancing: assigned queues, from a given offset on.
    async with PullConsumer("auditors", namesrv_addr=namesrv_addr) as consumer:
        queue = sent[0].queue
        await consumer.assign([queue])
        await consumer.seek(queue, sent[-3].queue_offset)
        messages = await consumer.poll(timeout_seconds=60)
        print(f"the last of queue {queue.queue_id} are {[int(message.body) for message in messages]}")


if __name__ == "__main__":
    run(main)
