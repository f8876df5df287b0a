"""A message that is answered, as if a function were called. `request_reply.py [NAMESRV]`"""

from anywhere import run

from kerolox.admin import AdminClient
from kerolox.client import ConsumeFrom, Message, Producer, PushConsumer, Received


async def main(namesrv_addr: str) -> None:
    # Otherwise the first request makes the topic, and the consumer finds it a little later.
    async with AdminClient(namesrv_addr=namesrv_addr) as admin:
        await admin.topics.create("sums")

    async def add(messages: list[Received]) -> None:
        for message in messages:
            await answering.reply(message, b"%d" % sum(map(int, message.body.split())))

    async with (
        Producer("calculators", namesrv_addr=namesrv_addr) as answering,
        PushConsumer(
            "calculators", add, topics="sums", consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=namesrv_addr
        ),
        Producer("askers", namesrv_addr=namesrv_addr) as asking,
    ):
        for numbers in (b"1 2 3", b"40 2"):
            reply = await asking.request(Message("sums", numbers), timeout_seconds=30)
            print(f"{numbers.decode().replace(' ', ' + ')} = {reply.body.decode()}")


if __name__ == "__main__":
    run(main)
