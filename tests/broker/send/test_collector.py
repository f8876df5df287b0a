"""Messages that are stored together: over a real socket, several in one turn of the loop."""

import asyncio
from pathlib import Path

from kerolox.codes import ResponseCode
from kerolox.message import sysflag
from kerolox.message.records import batch
from kerolox.remoting.address import parse_address
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT, Command, decode, encode
from kerolox.wire.frames import FrameReader
from kerolox.wire.headers.messages import SendBatchMessage, SendMessageV2, Sent
from tests.broker.brokers import BrokerFixture, running, sending


async def exchange(broker: BrokerFixture, *frames: bytes, answers: int) -> dict[int, Command]:
    """Send frames with one write, and return the answers by what they answer."""
    host, port = parse_address(broker.broker.address)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"".join(frames))
    found: dict[int, Command] = {}
    cut = FrameReader()
    async with asyncio.timeout(10):
        while len(found) < answers:
            data = await reader.read(65536)
            assert data
            found |= {answer.opaque: answer for answer in map(decode, cut.feed(data))}
    writer.close()
    await writer.wait_closed()
    return found


def frame(
    request: SendMessageV2,
    opaque: int,
    body: bytes = b"body",
    *,
    serialization: int = JSON,
    flag: int = 0,
) -> bytes:
    return encode(serialization, code=request.code, opaque=opaque, flag=flag, ext=request.ext(), body=body)


def place(answer: Command) -> tuple[int, int | None, int | None, str | None]:
    sent = Sent.decode(answer.ext)
    return answer.code, sent.queue_id, sent.queue_offset, sent.transaction_id


async def test_each_of_many_is_answered_with_its_own_place(broker: BrokerFixture) -> None:
    await broker.send("orders", b"first")
    frames = [
        frame(sending("orders", number % 3, UNIQ_KEY=f"u{number}"), number, serialization=number % 2)
        for number in range(100, 160)
    ]

    answers = await exchange(broker, *frames, answers=60)

    offsets = [1, 0, 0]
    for number in range(100, 160):
        queue_id = number % 3
        assert answers[number].serialization == (BINARY if number % 2 else JSON)
        assert place(answers[number]) == (0, queue_id, offsets[queue_id], f"u{number}")
        offsets[queue_id] += 1
    for queue_id in range(3):
        stored = [message.get("UNIQ_KEY") for message in await broker.messages("orders", queue_id)][-20:]
        assert stored == [f"u{number}" for number in range(100, 160) if number % 3 == queue_id]
    assert broker.counted("TOPIC_PUT_NUMS", "orders") == 61


async def test_unusual_sends_are_stored_in_order_between_plain_ones(broker: BrokerFixture) -> None:
    await broker.send("orders", b"first")
    odd = [{"UNIQ_KEY": "u2", "WAIT": "false"}, {"KEYS": "no unique key"}, {"UNIQ_KEY": "not-plain"}]
    requests = [sending("orders", UNIQ_KEY="u1"), sending("orders", **odd[0]), sending("orders", UNIQ_KEY="u3")]
    requests += [sending("orders", **odd[1]), sending("orders", **odd[2]), sending("orders", UNIQ_KEY="u6")]

    answers = await exchange(
        broker, *(frame(request, number) for number, request in enumerate(requests, 1)), answers=len(requests)
    )

    assert [Sent.decode(answers[number].ext).queue_offset for number in range(1, 7)] == [1, 2, 3, 4, 5, 6]


async def test_a_batch_is_stored_behind_what_came_before_it(broker: BrokerFixture) -> None:
    await broker.send("orders", b"first")
    plain = sending("orders", UNIQ_KEY="u1")
    request = SendBatchMessage(
        producer_group="producers",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        batch=True,
    )
    parts = batch.encode([batch.Part(b"two"), batch.Part(b"three")])

    answers = await exchange(
        broker, frame(plain, 1, b"one"), frame(request, 2, parts), frame(plain, 3, b"four"), answers=3
    )

    assert [place(answers[number])[2] for number in (1, 2, 3)] == [1, 2, 4]
    stored = [message.body for message in await broker.messages("orders")]
    assert stored == [b"first", b"one", b"two", b"three", b"four"]


async def test_one_that_is_refused_leaves_the_others_alone(broker: BrokerFixture) -> None:
    await broker.send("orders", b"first")
    good = sending("orders", UNIQ_KEY="u1")

    answers = await exchange(
        broker,
        frame(good, 1),
        frame(sending("orders", 99, UNIQ_KEY="u2"), 2),
        frame(good, 3, b""),
        frame(sending("orders", UNIQ_KEY="u4", own="x" * 40_000), 4),
        frame(sending("SCHEDULE_TOPIC_XXXX", UNIQ_KEY="u5"), 5),
        frame(good, 6),
        answers=6,
    )

    assert [answers[number].code for number in range(1, 7)] == [
        0,
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.NO_PERMISSION,
        0,
    ]
    assert len(await broker.messages("orders")) == 3


async def test_oneway_sends_are_stored_without_a_response(broker: BrokerFixture) -> None:
    await broker.send("orders", b"first")
    request = sending("orders", UNIQ_KEY="u1")

    answers = await exchange(broker, frame(request, 1, flag=ONEWAY_BIT), frame(request, 2), answers=1)

    assert list(answers) == [2]
    assert len(await broker.messages("orders")) == 3


async def test_sends_beyond_the_request_queue_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, sendThreadPoolQueueCapacity="4", flushDiskType="SYNC_FLUSH") as broker:
        await broker.send("orders", b"first")
        request = sending("orders", UNIQ_KEY="u1")

        answers = await exchange(broker, *(frame(request, number) for number in range(10)), answers=10)

        assert [answers[number].code for number in range(10)] == [0] * 4 + [ResponseCode.SYSTEM_BUSY] * 6
        assert len(await broker.messages("orders")) == 5
        assert (await broker.send("orders", b"next", UNIQ_KEY="u2")).queue_offset == 5


async def test_a_store_that_takes_nothing_refuses_all(broker: BrokerFixture) -> None:
    await broker.send("orders", b"first")
    broker.broker.store.retention.refusal = "the disk is full"
    request = sending("orders", UNIQ_KEY="u1")

    answers = await exchange(broker, frame(request, 1), frame(request, 2), answers=2)

    assert {answer.code for answer in answers.values()} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    broker.broker.store.retention.refusal = None
    assert (await broker.send("orders", b"next", UNIQ_KEY="u2")).queue_offset == 1


async def test_under_sync_flush_all_are_answered_when_they_are_durable(tmp_path: Path) -> None:
    async with running(tmp_path, flushDiskType="SYNC_FLUSH") as broker:
        await broker.send("orders", b"first")
        request = sending("orders", UNIQ_KEY="u1", KEYS="k")

        answers = await exchange(broker, *(frame(request, number) for number in range(20)), answers=20)

        assert [Sent.decode(answers[number].ext).queue_offset for number in range(20)] == list(range(1, 21))
        assert broker.broker.store.flusher.durable_offset == broker.broker.store.log.end_offset
        assert len(broker.broker.store.reader.find("orders", b"k")) == 20
        assert len(await broker.messages("orders")) == 21


async def test_a_compressed_message_is_plain_and_keeps_its_flag(broker: BrokerFixture) -> None:
    await broker.send("orders", b"first")
    request = sending("orders", 0, sysflag.COMPRESSED, UNIQ_KEY="u1")

    await exchange(broker, frame(request, 1), answers=1)

    assert (await broker.messages("orders"))[1].sys_flag & sysflag.COMPRESSED


async def test_one_that_fits_into_no_file_is_refused_alone(tmp_path: Path) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog=str(64 * 1024)) as broker:
        await broker.send("orders", b"first")
        request = sending("orders", UNIQ_KEY="u1")

        answers = await exchange(
            broker, frame(request, 1), frame(request, 2, bytes(65_400)), frame(request, 3), answers=3
        )

        assert [answers[number].code for number in (1, 2, 3)] == [0, ResponseCode.MESSAGE_ILLEGAL, 0]
