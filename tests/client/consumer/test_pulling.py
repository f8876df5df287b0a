"""One pull."""

import msgspec
import pytest

from kerolox.client.consumer.pulling import Puller
from kerolox.client.consumer.subscriptions import Sql92, subscription
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConnectFailed
from kerolox.message import batch, record, sysflag
from kerolox.message.message import Message
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.command import Command
from kerolox.wire.headers.messages import PullMessage
from tests.client.consumer.fake_brokers import FakeBrokers

QUEUE = MessageQueue("broker-a", 2, "orders")
ALL = subscription("orders", "*", 7)


def answer(code: int = 0, *messages: Message, suggested: int = 0) -> Command:
    fields = {"suggestWhichBrokerId": suggested, "nextBeginOffset": 12, "minOffset": 1, "maxOffset": 20}
    ext = msgspec.Raw(msgspec.json.encode({name: str(value) for name, value in fields.items()}))
    return Command(code=code, opaque=1, ext_fields=ext, body=b"".join(map(record.encode, messages)))


def asked(brokers: FakeBrokers) -> PullMessage:
    request = brokers.asked[-1][1]
    assert isinstance(request, PullMessage)
    return request


async def test_a_pull_says_what_java_says() -> None:
    brokers = FakeBrokers()
    brokers.commands = [answer(0, Message("orders", b"body", queue_id=2, queue_offset=10))]

    found = await Puller(brokers, "group").pull(QUEUE, 10, ALL, commit_offset=9)

    request = asked(brokers)
    assert (request.sys_flag, request.commit_offset) == (0b11, 9)
    assert (request.max_msg_nums, request.max_msg_bytes, request.suspend_timeout_millis) == (32, 262144, 15000)
    assert (request.subscription, request.sub_version, request.expression_type) == (None, 7, "TAG")
    assert [message.body for message in found.records] == [b"body"]
    assert (found.next_offset, found.min_offset, found.max_offset, found.is_moved) == (12, 1, 20, False)


async def test_an_expression_travels_with_the_pull_if_it_is_wanted_so() -> None:
    brokers = FakeBrokers()
    brokers.commands = [answer(19), answer(19)]
    puller = Puller(brokers, "group", has_expression=True, is_lite=True, suspend_seconds=0)

    await puller.pull(QUEUE, 10, subscription("orders", "TagA", 7))
    assert (asked(brokers).subscription, asked(brokers).sub_version, asked(brokers).sys_flag) == ("TagA", 0, 0b10100)

    await puller.pull(QUEUE, 10, subscription("orders", Sql92("a = 1"), 7))
    assert (asked(brokers).subscription, asked(brokers).sub_version) == ("a = 1", 7)


@pytest.mark.parametrize("code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY])
async def test_nothing_found_says_where_to_go_on(code: ResponseCode) -> None:
    brokers = FakeBrokers()
    brokers.commands = [answer(code)]

    found = await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    assert (found.records, found.next_offset, found.is_moved) == ([], 12, False)


async def test_an_offset_that_is_not_there_is_no_error() -> None:
    brokers = FakeBrokers()
    brokers.commands = [answer(ResponseCode.PULL_OFFSET_MOVED)]

    assert (await Puller(brokers, "group").pull(QUEUE, 10, ALL)).is_moved


async def test_a_refusal_is_raised() -> None:
    brokers = FakeBrokers()
    brokers.commands = [Command(code=ResponseCode.SUBSCRIPTION_NOT_EXIST, opaque=1, remark="who are you")]

    with pytest.raises(AnswerError, match="who are you"):
        await Puller(brokers, "group").pull(QUEUE, 10, ALL)


async def test_a_slave_is_read_if_the_broker_suggests_it_and_nothing_is_committed_there() -> None:
    brokers = FakeBrokers()
    brokers.slaves["broker-a", 1] = "slave:10911"
    brokers.commands = [answer(19, suggested=1), answer(19)]
    puller = Puller(brokers, "group")

    assert (await puller.pull(QUEUE, 10, ALL)).broker_id == 1
    await puller.pull(QUEUE, 10, ALL, broker_id=1, commit_offset=9)

    assert brokers.asked[-1][0] == "slave:10911"
    assert asked(brokers).sys_flag == 0b10


async def test_without_a_master_a_slave_is_read() -> None:
    brokers = FakeBrokers()
    brokers.addresses.clear()
    with pytest.raises(ConnectFailed, match="broker-a"):
        await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    brokers.slaves["broker-a", 1] = "slave:10911"
    brokers.commands = [answer(19)]
    await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    assert brokers.asked[-1][0] == "slave:10911"


async def test_a_batch_in_one_record_is_taken_apart() -> None:
    body = batch.encode([batch.Part(b"one", b"a\x01b\x02"), batch.Part(b"two")])
    flags = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
    brokers = FakeBrokers()
    brokers.commands = [
        answer(0, Message("orders", body, sys_flag=flags, queue_offset=10), Message("orders", b"x", queue_offset=12))
    ]

    found = await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    assert [(message.body, message.queue_offset) for message in found.records] == [
        (b"one", 10),
        (b"two", 11),
        (b"x", 12),
    ]
    assert found.records[0].get("a") == "b"
    assert found.records[0].sys_flag == 0
