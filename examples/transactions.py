"""Transactional messages: delivered only if the local transaction succeeds. `transactions.py [NAMESRV]`"""

import asyncio

from anywhere import run

from kerolox.client import ConsumeFrom, Decision, Message, PullConsumer, Received, TransactionProducer

# Stands for a table in a database.
paid: set[str] = set()


async def pay(message: Message) -> Decision:
    """The local transaction."""
    order = message.keys[0]
    if order == "too-expensive":
        return Decision.ROLLBACK
    paid.add(order)
    # After UNKNOWN or an exception the broker checks later, with any producer of the group.
    return Decision.UNKNOWN if order == "interrupted" else Decision.COMMIT


async def check(message: Received) -> Decision:
    """Called when a broker does not know the result of a transaction."""
    print(f"the broker asks about {message.keys[0]}")
    return Decision.COMMIT if message.keys[0] in paid else Decision.ROLLBACK


async def main(namesrv_addr: str) -> None:
    async with TransactionProducer("payers", check, namesrv_addr=namesrv_addr) as producer:
        for order in ("cheap", "too-expensive", "interrupted"):
            result = await producer.send_in_transaction(Message("payments", b"paid", keys=[order]), pay)
            print(f"{order}: {result.decision.name}")
        async with PullConsumer(
            "shippers", topics="payments", consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=namesrv_addr
        ) as consumer:
            shipped: set[str] = set()
            # By default a broker checks after about a minute.
            async with asyncio.timeout(180):
                while shipped != paid:
                    shipped.add((await anext(consumer)).keys[0])
        print(f"shipped: {', '.join(sorted(shipped))}")


if __name__ == "__main__":
    run(main, {"transactionTimeOut": "500", "transactionCheckInterval": "500"})
