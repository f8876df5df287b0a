"""A request message and its reply, like a function call. `request_reply.py [NAMESRV]`"""

from anywhere import run

from kerolox.admin import AdminClient
from kerolox.client import ConsumeFrom, Message, Producer, PushConsumer, Received


async def main(namesrv_addr: str) -> None:
    # Else the first request would create the topic, and the consumer would find it only later.
    async with AdminClient(namesrv_addr=namesrv_addr) as admin:
        await admin.topics.create("sums")

    async def add(messages: list[Received]) -> None:
        for message in messages:
            await responder.reply(message, b"%d" % sum(map(int, message.body.split())))

    async with (
        Producer("calculators", namesrv_addr=namesrv_addr) as responder,
        PushConsumer(
            "calculators", add, topics="sums", consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=namesrv_addr
        ),
        Producer("askers", namesrv_addr=namesrv_addr) as requester,
    ):
        for numbers in (b"1 2 3", b"40 2"):
            reply = await requester.request(Message("sums", numbers), timeout_seconds=30)
            print(f"{numbers.decode().replace(' ', ' + ')} = {reply.body.decode()}")


if __name__ == "__main__":
    run(main)
