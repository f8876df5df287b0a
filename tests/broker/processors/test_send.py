"""Sending over a real socket."""

import asyncio
from pathlib import Path

import pytest

from kerolox.broker.errors import GroupNotFound, InvalidParameter, ServiceNotAvailable
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, NoPermission, TopicNotFound
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import parse_offset_id
from kerolox.remoting.address import parse_address
from kerolox.wire.command import BINARY, JSON, decode, encode
from kerolox.wire.frames import FrameReader
from kerolox.wire.headers.messages import SendMessage, Sent
from tests.broker.brokers import BrokerFixture, running, sending


async def test_a_message_is_stored_and_its_place_answered(broker: BrokerFixture) -> None:
    first = await broker.send("orders", b"one", 1, KEYS="k", UNIQ_KEY="u1")
    second = await broker.send("orders", b"two", 1)

    assert (first.queue_id, first.queue_offset, second.queue_offset) == (1, 0, 1)
    assert (first.transaction_id, first.msg_region, first.trace_on) == ("u1", "DefaultRegion", "true")
    stored = await broker.messages("orders", 1)
    assert [message.body for message in stored] == [b"one", b"two"]
    assert stored[0].parsed == {"KEYS": "k", "UNIQ_KEY": "u1", "CLUSTER": "DefaultCluster"}
    assert stored[1].get("UNIQ_KEY") == second.transaction_id
    assert first.msg_id is not None
    assert parse_offset_id(first.msg_id)[1] == stored[0].physical_offset
    assert stored[0].offset_id == first.msg_id


async def test_the_old_header_says_the_same(broker: BrokerFixture) -> None:
    request = SendMessage(
        producer_group="p",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=2,
        queue_id=0,
        sys_flag=0,
        born_timestamp=7,
        flag=3,
        reconsume_times=2,
    )

    await broker.call(request, b"body")

    (message,) = await broker.messages("orders")
    assert (message.flag, message.born_timestamp, message.reconsume_times) == (3, 7, 2)


@pytest.mark.parametrize(
    "unique_key", ["7F00000151F1DABDB9114D35C0770000", "with-hyphen", "\N{GREEK SMALL LETTER MU}" * 100]
)
@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_the_place_is_answered_in_the_serialization_of_the_request(
    broker: BrokerFixture, serialization: int, unique_key: str
) -> None:
    await broker.send("orders", b"first")
    request = sending("orders", UNIQ_KEY=unique_key)
    frame = encode(serialization, code=request.code, opaque=7, ext=request.ext(), body=b"second")
    host, port = parse_address(broker.broker.address)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(frame)

    answer = await reader.readexactly(4)
    (parsed,) = FrameReader().feed(answer + await reader.readexactly(int.from_bytes(answer)))
    writer.close()
    await writer.wait_closed()

    command = decode(parsed)
    sent = Sent.decode(command.ext)
    _, second = await broker.messages("orders")
    assert (command.serialization, command.opaque, command.code, command.is_answer) == (serialization, 7, 0, True)
    assert sent == Sent(
        msg_id=second.offset_id,
        queue_id=0,
        queue_offset=1,
        transaction_id=unique_key,
        msg_region="DefaultRegion",
        trace_on="true",
    )


async def test_a_topic_that_nobody_made_is_made_like_its_template(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body")

    topic = broker.broker.topics.find("orders")
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (4, 4, 6)


async def test_without_a_queue_the_broker_chooses_one(broker: BrokerFixture) -> None:
    chosen = {(await broker.send("orders", b"body", -1)).queue_id for _ in range(60)}

    assert chosen == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("topic", "queue_id", "error"),
    [
        ("no good", 0, InvalidParameter),
        ("../escape", 0, InvalidParameter),
        ("t" * 128, 0, InvalidParameter),
        ("SCHEDULE_TOPIC_XXXX", 0, NoPermission),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 0, NoPermission),
        ("TBW102", 99, InvalidParameter),
    ],
)
async def test_an_illegal_message_is_refused_with_its_code(
    broker: BrokerFixture, topic: str, queue_id: int, error: type[AnswerError]
) -> None:
    with pytest.raises(error):
        await broker.send(topic, b"body", queue_id)


async def test_a_topic_is_not_made_where_that_is_off(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateTopicEnable="false") as broker:
        with pytest.raises(TopicNotFound):
            await broker.send("orders", b"body")


async def test_a_body_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, maxMessageSize="1000") as broker:
        with pytest.raises(MessageIllegal):
            await broker.send("orders", b"x" * 1001)


async def test_a_store_that_is_not_open_is_no_service(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body")
    await broker.broker.store.close()

    with pytest.raises(ServiceNotAvailable):
        await broker.send("orders", b"body")


async def test_a_refusal_names_the_region_too(broker: BrokerFixture) -> None:
    """Java's clients read it from every answer to a send."""
    connection = await broker.client.connection(broker.broker.address)
    with pytest.raises(AnswerError) as refused:
        await connection.call(sending("no good"), b"")

    assert refused.value.code == ResponseCode.INVALID_PARAMETER


async def test_sent_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for number in range(10):
            await broker.send("orders", b"%d" % number)

    async with running(tmp_path) as broker:
        assert [message.body for message in await broker.messages("orders")] == [b"%d" % number for number in range(10)]
        assert broker.broker.topics.find("orders").write_queue_nums == 4
        assert (await broker.send("orders", b"more")).queue_offset == 10


async def test_a_message_without_a_body_is_refused(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body")

    with pytest.raises(MessageIllegal):
        await broker.send("orders", b"")
    with pytest.raises(MessageIllegal):
        await broker.send("others", b"")


@pytest.mark.parametrize("topic", ["orders", "%RETRY%group"])
async def test_properties_longer_than_a_record_can_hold_are_refused(broker: BrokerFixture, topic: str) -> None:
    await broker.send(topic, b"body")

    with pytest.raises(MessageIllegal, match="at most 32767"):
        await broker.send(topic, b"body", LONG="x" * 32767)

    assert broker.broker.router._request_queues["send"].under_way == 0


async def test_a_message_larger_than_a_file_of_the_log_takes_no_place_among_those_under_way(tmp_path: Path) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog="10000") as broker:
        await broker.send("orders", b"body")
        with pytest.raises(MessageIllegal, match="fits into a commit log file"):
            await broker.send("orders", bytes(20_000))

        assert broker.broker.router._request_queues["send"].under_way == 0


async def test_the_receipt_property_of_pop_is_not_stored(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body", POP_CK="0 1 2", KEYS="k", UNIQ_KEY="u")

    (message,) = await broker.messages("orders")
    assert message.parsed == {"KEYS": "k", "UNIQ_KEY": "u", "CLUSTER": "DefaultCluster"}


async def test_a_message_sent_to_be_tried_again_waits_for_its_level(broker: BrokerFixture) -> None:
    sent = await broker.send("%RETRY%group", b"body", DELAY="3")

    assert (sent.queue_id, sent.queue_offset) == (0, 0)
    (waiting,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert waiting.get("REAL_TOPIC") == "%RETRY%group"


async def test_a_message_tried_too_often_is_sent_to_the_dead_letters(broker: BrokerFixture) -> None:
    request = sending("%RETRY%group", DELAY="3")
    request.reconsume_times, request.max_reconsume_times = 3, 2

    await broker.call(request, b"body")

    (dead,) = await broker.messages("%DLQ%group")
    assert (dead.body, dead.reconsume_times, dead.get("DELAY")) == (b"body", 3, "-1")


async def test_retries_of_a_group_that_may_not_be_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateSubscriptionGroup="false") as broker:
        with pytest.raises(GroupNotFound):
            await broker.send("%RETRY%group", b"body")
