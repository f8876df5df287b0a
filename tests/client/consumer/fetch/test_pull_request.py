"""Pull requests and their results."""

import msgspec
import pytest

from kerolox.client.consumer.fetch.pull_request import Puller
from kerolox.client.consumer.group.subscriptions import Sql92, build_subscription
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConnectFailed
from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.records import batch, record
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.command import Command
from kerolox.wire.headers.messages import PullMessage
from tests.client.consumer.fake_brokers import FakeBrokers

QUEUE = MessageQueue("broker-a", 2, "orders")
ALL = build_subscription("orders", "*", 7)


def response(code: int = 0, *messages: Message, suggested: int = 0) -> Command:
    fields = {"suggestWhichBrokerId": suggested, "nextBeginOffset": 12, "minOffset": 1, "maxOffset": 20}
    ext = msgspec.Raw(msgspec.json.encode({name: str(value) for name, value in fields.items()}))
    return Command(code=code, opaque=1, ext_fields=ext, body=b"".join(map(record.encode, messages)))


def last_request(brokers: FakeBrokers) -> PullMessage:
    request = brokers.asked[-1][1]
    assert isinstance(request, PullMessage)
    return request


async def test_a_pull_request_has_java_s_fields() -> None:
    brokers = FakeBrokers()
    brokers.commands = [response(0, Message("orders", b"body", queue_id=2, queue_offset=10))]

    found = await Puller(brokers, "group").pull(QUEUE, 10, ALL, commit_offset=9)

    request = last_request(brokers)
    assert (request.sys_flag, request.commit_offset) == (0b11, 9)
    assert (request.max_msg_nums, request.max_msg_bytes, request.suspend_timeout_millis) == (32, 262144, 15000)
    assert (request.subscription, request.sub_version, request.expression_type) == (None, 7, "TAG")
    assert [message.body for message in found.records] == [b"body"]
    assert (found.next_offset, found.min_offset, found.max_offset, found.is_offset_illegal) == (12, 1, 20, False)


async def test_the_pull_request_contains_the_expression_if_configured() -> None:
    brokers = FakeBrokers()
    brokers.commands = [response(19), response(19)]
    puller = Puller(brokers, "group", has_expression=True, is_lite=True, suspend_seconds=0)

    await puller.pull(QUEUE, 10, build_subscription("orders", "TagA", 7))
    assert (last_request(brokers).subscription, last_request(brokers).sub_version, last_request(brokers).sys_flag) == (
        "TagA",
        0,
        0b10100,
    )

    await puller.pull(QUEUE, 10, build_subscription("orders", Sql92("a = 1"), 7))
    assert (last_request(brokers).subscription, last_request(brokers).sub_version) == ("a = 1", 7)


@pytest.mark.parametrize("code", [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY])
async def test_an_empty_result_has_the_next_offset(code: ResponseCode) -> None:
    brokers = FakeBrokers()
    brokers.commands = [response(code)]

    found = await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    assert (found.records, found.next_offset, found.is_offset_illegal) == ([], 12, False)


async def test_an_offset_out_of_range_is_reported_in_the_result() -> None:
    brokers = FakeBrokers()
    brokers.commands = [response(ResponseCode.PULL_OFFSET_MOVED)]

    assert (await Puller(brokers, "group").pull(QUEUE, 10, ALL)).is_offset_illegal


async def test_an_error_response_is_raised() -> None:
    brokers = FakeBrokers()
    brokers.commands = [Command(code=ResponseCode.SUBSCRIPTION_NOT_EXIST, opaque=1, remark="who are you")]

    with pytest.raises(AnswerError, match="who are you"):
        await Puller(brokers, "group").pull(QUEUE, 10, ALL)


async def test_a_suggested_slave_is_pulled_without_committing() -> None:
    brokers = FakeBrokers()
    brokers.slaves["broker-a", 1] = "slave:10911"
    brokers.commands = [response(19, suggested=1), response(19)]
    puller = Puller(brokers, "group")

    assert (await puller.pull(QUEUE, 10, ALL)).broker_id == 1
    await puller.pull(QUEUE, 10, ALL, broker_id=1, commit_offset=9)

    assert brokers.asked[-1][0] == "slave:10911"
    assert last_request(brokers).sys_flag == 0b10


async def test_a_slave_is_pulled_if_there_is_no_master() -> None:
    brokers = FakeBrokers()
    brokers.addresses.clear()
    with pytest.raises(ConnectFailed, match="broker-a"):
        await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    brokers.slaves["broker-a", 1] = "slave:10911"
    brokers.commands = [response(19)]
    await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    assert brokers.asked[-1][0] == "slave:10911"


async def test_a_batch_stored_as_one_record_is_split() -> None:
    body = batch.encode([batch.Part(b"one", b"a\x01b\x02"), batch.Part(b"two")])
    flags = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
    brokers = FakeBrokers()
    brokers.commands = [
        response(0, Message("orders", body, sys_flag=flags, queue_offset=10), Message("orders", b"x", queue_offset=12))
    ]

    found = await Puller(brokers, "group").pull(QUEUE, 10, ALL)

    assert [(message.body, message.queue_offset) for message in found.records] == [
        (b"one", 10),
        (b"two", 11),
        (b"x", 12),
    ]
    assert found.records[0].get("a") == "b"
    assert found.records[0].sys_flag == 0
