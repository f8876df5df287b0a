"""The ways to send: single, concurrent, as a batch, in order, and delayed. `producer.py [NAMESRV]`"""

import asyncio

from anywhere import run

from kerolox.client import Message, Producer


async def main(namesrv_addr: str) -> None:
    async with Producer("shop", namesrv_addr=namesrv_addr) as producer:
        # When this returns, a broker has stored the message.
        result = await producer.send(Message("orders", b"an order", tag="paid", keys=["order-17"]))
        print(f"sent {result.message_id}: queue {result.queue.queue_id}, offset {result.queue_offset}")

        # Concurrent sends: each awaits only its own response.
        results = await asyncio.gather(*(producer.send(Message("orders", b"%d" % number)) for number in range(100)))
        print(f"sent {len(results)} at once, to {len({result.queue for result in results})} queues")

        # A batch: several messages in one request.
        result = await producer.send([Message("orders", b"one of three") for _ in range(3)])
        print(f"sent a list of {len(result.message_ids)}")

        # Messages with the same key go to the same queue, and keep their order.
        steps = [
            await producer.send(Message("steps", step), order_by="order-17") for step in (b"made", b"paid", b"sent")
        ]
        print(f"sent {len(steps)} steps in order, to {len({step.queue for step in steps})} queue")

        # Delayed messages are delivered at their time.
        await producer.send(Message("reminders", b"in a second", delay_level=1))
        await producer.send(Message("reminders", b"in an hour", delay_seconds=3600))
        print("sent two reminders for later")

        # One-way: no response and no retry.
        await producer.send_oneway(Message("clicks", b"a click"))

    # Concurrent sends of many tasks can be batched automatically.
    async with Producer("clicks", namesrv_addr=namesrv_addr, auto_batch=True) as producer:
        clicks = await asyncio.gather(*(producer.send(Message("clicks", b"a click")) for _ in range(1000)))
        print(f"sent {len(clicks)} clicks in batches")


if __name__ == "__main__":
    run(main)
