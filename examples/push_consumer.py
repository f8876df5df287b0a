"""Messages are passed to a handler, and redelivered if it fails. `push_consumer.py [NAMESRV]`"""

import asyncio

from anywhere import run

from kerolox.client import Consumed, ConsumeFrom, Message, Producer, PushConsumer, Received

ORDERS = 10


async def main(namesrv_addr: str) -> None:
    done: set[bytes] = set()
    is_complete = asyncio.Event()

    async def handle(messages: list[Received]) -> Consumed | None:
        # A list of one message, unless `consume_message_batch_max_size` is larger.
        for message in messages:
            if message.body == b"order 7" and message.reconsume_times == 0:
                print("order 7 cannot be handled now, and is redelivered in a second")
                return Consumed.later(delay_level=1)
            done.add(message.body)
            print(f"{message.body.decode()} done")
        if len(done) == ORDERS:
            is_complete.set()
        return None

    async with Producer("shop", namesrv_addr=namesrv_addr) as producer:
        for number in range(ORDERS):
            await producer.send(Message("push-orders", b"order %d" % number, tag="paid"))
        await producer.send(Message("push-orders", b"not for us", tag="unpaid"))

    # The members of a group share the queues. Closing waits for running handlers and commits offsets.
    async with PushConsumer(
        "packers",
        handle,
        topics={"push-orders": "paid"},
        consume_from=ConsumeFrom.FIRST_OFFSET,
        namesrv_addr=namesrv_addr,
    ):
        async with asyncio.timeout(60):
            await is_complete.wait()
    print(f"all {ORDERS} orders are done")


if __name__ == "__main__":
    run(main)
