"""Request-reply over real sockets."""

from pathlib import Path

import pytest

from kerolox.broker import Broker
from kerolox.errors import SystemFailure
from kerolox.message import properties
from kerolox.remoting.client import Client
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.wire.header import Empty
from kerolox.wire.headers.messages import PushReplyMessage, SendReplyMessage, SendReplyMessageV2
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, running

TOPIC = "DefaultCluster_REPLY_TOPIC"


class Requester:
    """A client that waits for replies."""

    def __init__(self) -> None:
        self.taken: list[tuple[PushReplyMessage, bytes]] = []
        self.is_willing = True

    @handles(PushReplyMessage)
    def take(self, request: Incoming[PushReplyMessage]) -> Reply[Empty]:
        if not self.is_willing:
            raise SystemFailure("nobody waits for it any more")
        self.taken.append((request.header, request.body))
        return Reply()


def replying(client_id: str | None = "requester") -> SendReplyMessageV2:
    names = {"MSG_TYPE": "reply", "CORRELATION_ID": "c1", "TTL": "3000"}
    if client_id is not None:
        names["REPLY_TO_CLIENT"] = client_id
    return SendReplyMessageV2(
        producer_group="p",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=7,
        flag=5,
        properties=properties.to_bytes(names).decode(),
    )


async def requester(broker: Broker, client: Client) -> None:
    await BrokerFixture(broker, client).heartbeat("requester", produces=("requesters",))


async def test_a_reply_is_pushed_to_the_waiting_client_and_stored(broker: BrokerFixture) -> None:
    waiting = Requester()
    async with Client(Router(waiting)) as client:
        await requester(broker.broker, client)

        sent = (await broker.call(replying(), b"answer")).fields

    ((pushed, body),) = waiting.taken
    assert (body, pushed.topic, pushed.flag, pushed.born_timestamp) == (b"answer", TOPIC, 5, 7)
    assert pushed.store_host == broker.broker.address
    assert pushed.born_host.startswith("127.0.0.1:")
    assert pushed.properties is not None
    pushed_properties = properties.parse(pushed.properties)
    assert (pushed_properties["CORRELATION_ID"], pushed_properties["PUSH_REPLY_TIME"]) == (
        "c1",
        str(pushed.store_timestamp),
    )
    (stored,) = await broker.messages(TOPIC)
    assert (stored.body, stored.get("CORRELATION_ID"), stored.get("PUSH_REPLY_TIME")) == (b"answer", "c1", None)
    assert (sent.msg_id, sent.queue_id, sent.queue_offset) == (stored.offset_id, 0, 0)
    assert (sent.msg_region, sent.trace_on) == ("DefaultRegion", "true")
    assert broker.counted("TOPIC_PUT_NUMS", TOPIC) == 1


async def test_storing_replies_can_be_disabled(tmp_path: Path) -> None:
    waiting = Requester()
    async with running(tmp_path, storeReplyMessageEnable="false") as broker, Client(Router(waiting)) as client:
        await requester(broker.broker, client)
        header = replying()
        old = SendReplyMessage(**{name: getattr(header, name) for name in SendReplyMessage.__struct_fields__})

        sent = (await broker.call(old, b"answer")).fields

        assert (sent.msg_id, sent.queue_id, sent.queue_offset) == ("0", 0, 0)
        assert len(waiting.taken) == 1
        assert await broker.messages(TOPIC) == []


@pytest.mark.parametrize(
    ("client_id", "remark"),
    [
        ("nobody", "push reply message fail, channel of <nobody> not found."),
        (None, r"reply message properties\[REPLY_TO_CLIENT\] is null"),
        ("requester", "push reply message to requesterfail."),
    ],
)
async def test_a_reply_that_is_not_received_is_a_failure(
    broker: BrokerFixture, client_id: str | None, remark: str
) -> None:
    waiting = Requester()
    waiting.is_willing = False
    async with Client(Router(waiting)) as client:
        await requester(broker.broker, client)

        with pytest.raises(SystemFailure, match=remark):
            await broker.call(replying(client_id), b"answer")
