"""Sends with equal headers, read by a template: over real sockets, many in one loop iteration."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kerolox.broker.send.columns import SendColumns
from kerolox.broker.send.header_blocks import FEW, HeaderBlock
from kerolox.codes import RequestCode, ResponseCode
from kerolox.message import sysflag
from kerolox.message.plain_properties import PlainProperties
from kerolox.remoting.address import parse_address
from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Router
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT, Command, decode, encode
from kerolox.wire.frames import Frame, FrameReader
from kerolox.wire.header_templates.columns import EqualHeaders, HeaderColumns
from kerolox.wire.headers.messages import SendMessageV2, Sent
from tests.broker.brokers import BrokerFixture, running, sending

COUNT = 3 * FEW


class Sender:
    """A connection on which many frames leave with one write."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._cut = FrameReader()

    async def exchange(self, frames: list[bytes], answers: int | None = None) -> dict[int, Command]:
        """Send frames, and return the answers by what they answer."""
        self.writer.write(b"".join(frames))
        found: dict[int, Command] = {}
        async with asyncio.timeout(10):
            while len(found) < (len(frames) if answers is None else answers):
                data = await self.reader.read(65536)
                assert data
                found |= {answer.opaque: answer for answer in map(decode, self._cut.feed(data))}
        return found


@pytest.fixture
async def connect(broker: BrokerFixture) -> Any:
    senders: list[Sender] = []

    async def connected(to: BrokerFixture = broker) -> Sender:
        senders.append(Sender(*await asyncio.open_connection(*parse_address(to.broker.address))))
        return senders[-1]

    yield connected
    for sender in senders:
        sender.writer.close()
        await sender.writer.wait_closed()


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blocks that a template has read."""
    counts: list[int] = []
    add_block = SendColumns.add_block

    def note(sends: SendColumns, block: HeaderBlock, plain: PlainProperties) -> None:
        add_block(sends, block, plain)
        counts.append(len(block))

    monkeypatch.setattr(SendColumns, "add_block", note)
    return counts


def frames_of(
    first: int,
    count: int = COUNT,
    body: Callable[[int], bytes] = lambda number: b"body%06d" % number,
    serialization: int = JSON,
    flag: int = 0,
    queues: int = 3,
    born: int = 1_700_000_000_000,
    request: Callable[..., SendMessageV2] = sending,
    names: Mapping[str, str] | None = None,
) -> list[bytes]:
    made = []
    for number in range(first, first + count):
        header = request("orders", number % queues, UNIQ_KEY=f"u{number:06}", **(names or {}))
        header.born_timestamp = born + number
        made.append(
            encode(serialization, code=header.code, opaque=number, flag=flag, ext=header.ext(), body=body(number))
        )
    return made


def places(answers: dict[int, Command]) -> list[tuple[int, int, int | None, int | None, str | None]]:
    sents = {number: Sent.decode(answer.ext) for number, answer in sorted(answers.items())}
    return [
        (number, answers[number].code, sent.queue_id, sent.queue_offset, sent.transaction_id)
        for number, sent in sents.items()
    ]


def expected(first: int, count: int = COUNT, offset: int = 0, queues: int = 3) -> list[tuple[Any, ...]]:
    numbers = range(first, first + count)
    offsets = [offset] * queues
    rows = []
    for number in numbers:
        rows.append((number, 0, number % queues, offsets[number % queues], f"u{number:06}"))
        offsets[number % queues] += 1
    return rows


@pytest.mark.parametrize("serialization", [JSON, BINARY])
@pytest.mark.parametrize("names", [{"WAIT": "true"}, {}, {"TAGS": "red", "own": "ä"}])
async def test_each_is_stored_as_it_was_sent_and_answered_with_its_place(
    broker: BrokerFixture, connect: Any, together: list[int], serialization: int, names: dict[str, str]
) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()

    for number in range(4):
        first = 100_000 + number * COUNT
        answers = await sender.exchange(frames_of(first, serialization=serialization, names=names))
        assert places(answers) == expected(first, offset=number * COUNT // 3)
        assert {answer.serialization for answer in answers.values()} == {serialization}

    # The first were looked at one by one.
    assert sum(together) >= FEW
    address = sender.writer.get_extra_info("sockname")
    for queue_id in range(3):
        for message in await broker.messages("orders", queue_id):
            number = int(message.body[4:])
            assert message.get("UNIQ_KEY") == f"u{number:06}"
            assert {name: message.get(name) for name in names} == names
            assert message.get("CLUSTER") == "DefaultCluster"
            assert message.born_timestamp == 1_700_000_000_000 + number
            assert message.queue_id == number % 3 == queue_id
            assert message.born_host[-4:] == address[1].to_bytes(4)
    found = broker.broker.store.reader.find("orders", f"u{100_000 + 2 * COUNT:06}".encode())
    assert len(found) == 1
    assert broker.counted("TOPIC_PUT_NUMS", "orders") == 4 * COUNT + 1


async def test_sends_of_many_connections_form_one_block(
    broker: BrokerFixture, connect: Any, together: list[int]
) -> None:
    await broker.send("orders", b"first", 3)
    senders = [await connect() for _ in range(2 * FEW)]
    await senders[0].exchange(frames_of(100_000))

    for turn in range(1, 4):
        frames = frames_of(100_000 + turn * COUNT, len(senders))
        answers = await asyncio.gather(
            *(sender.exchange([frame]) for sender, frame in zip(senders, frames, strict=True))
        )
        assert [list(answer) for answer in answers] == [
            [100_000 + turn * COUNT + number] for number in range(len(senders))
        ]

    stored = [message.body for queue_id in range(3) for message in await broker.messages("orders", queue_id)]
    assert len(stored) == len(set(stored)) == COUNT + 3 * len(senders)


async def test_bodies_may_be_of_any_size(broker: BrokerFixture, connect: Any, together: list[int]) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()

    for first in (100_000, 200_000):
        answers = await sender.exchange(frames_of(first, body=lambda number: b"%d," % number * (number % 7 + 1)))
        assert [place[1] for place in places(answers)] == [0] * COUNT

    assert sum(together) >= FEW
    bodies = [message.body for message in await broker.messages("orders", 200_001 % 3)]
    assert b"200001," * (200_001 % 7 + 1) in bodies


async def test_a_block_larger_than_one_append_is_split(
    broker: BrokerFixture, connect: Any, together: list[int]
) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()

    for number in range(3):
        first = 100_000 + number * COUNT
        answers = await sender.exchange(frames_of(first, body=lambda number: b"%06d" % number * 1000))
        assert places(answers) == expected(first, offset=number * COUNT // 3)

    for queue_id in range(3):
        for message in await broker.messages("orders", queue_id):
            assert message.body == message.body[:6] * 1000


async def test_a_header_that_differs_is_decoded(broker: BrokerFixture, connect: Any, together: list[int]) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    await sender.exchange(frames_of(100_000, names={"WAIT": "true"}))
    frames = frames_of(200_000, names={"WAIT": "true"})
    odd = sending("orders", 0, sysflag.COMPRESSED, UNIQ_KEY="u900000", WAIT="true")
    frames[5] = encode(JSON, code=odd.code, opaque=900_000, flag=0, ext=odd.ext(), body=b"compressed")

    answers = await sender.exchange(frames)

    assert {answer.code for answer in answers.values()} == {0}
    assert together == []
    messages = await broker.messages("orders", 0)
    assert [message.body for message in messages if message.sys_flag & sysflag.COMPRESSED] == [b"compressed"]
    assert sum([len(await broker.messages("orders", queue_id)) for queue_id in range(3)]) == 2 * COUNT


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"queues": 9}, ResponseCode.INVALID_PARAMETER),
        ({"body": lambda number: b"" if number % 2 else b"body"}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_refused_sends_leave_the_others_alone(
    broker: BrokerFixture, connect: Any, change: dict[str, Any], code: ResponseCode
) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    await sender.exchange(frames_of(100_000))

    answers = await sender.exchange(frames_of(200_000, **change))

    codes = [answers[number].code for number in sorted(answers)]
    assert set(codes) == {0, code}
    stored = [message.get("UNIQ_KEY") for queue in range(4) for message in await broker.messages("orders", queue)]
    assert {key for key in stored if key is not None and key.startswith("u2")} == {
        f"u{number:06}" for number in answers if answers[number].code == 0
    }


async def test_oneway_sends_are_stored_without_a_response(
    broker: BrokerFixture, connect: Any, together: list[int]
) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    last = frames_of(300_000, 1)

    for first in (100_000, 200_000):
        answers = await sender.exchange([*frames_of(first, flag=ONEWAY_BIT)], answers=0)
        answers = await sender.exchange(last, answers=1)
        assert list(answers) == [300_000]

    stored = [message.body for queue_id in range(3) for message in await broker.messages("orders", queue_id)]
    assert len(set(stored)) == 2 * COUNT + 1


async def test_a_topic_that_is_deleted_is_not_stored_to(broker: BrokerFixture, connect: Any) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    await sender.exchange(frames_of(100_000))
    del broker.broker.topics.topics["orders"]

    answers = await sender.exchange(frames_of(200_000, queues=2))

    # It is made again, as for any first message.
    assert {answer.code for answer in answers.values()} == {0}
    assert "orders" in broker.broker.topics.topics


async def test_a_store_that_takes_nothing_refuses_all(broker: BrokerFixture, connect: Any, together: list[int]) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    await sender.exchange(frames_of(100_000))
    broker.broker.store.retention.refusal = "the disk is full"

    answers = await sender.exchange(frames_of(200_000))

    assert sum(together) >= FEW
    assert {answer.code for answer in answers.values()} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert sorted(answers) == list(range(200_000, 200_000 + COUNT))
    broker.broker.store.retention.refusal = None
    assert places(await sender.exchange(frames_of(300_000)))[0][3] == COUNT // 3


async def test_sends_beyond_the_request_queue_are_refused(tmp_path: Path, connect: Any, together: list[int]) -> None:
    async with running(
        tmp_path / "x", sendThreadPoolQueueCapacity=str(COUNT - 2), flushDiskType="SYNC_FLUSH"
    ) as broker:
        await broker.send("orders", b"first", 3)
        sender = await connect(broker)
        await sender.exchange(frames_of(100_000))

        answers = await sender.exchange(frames_of(200_000))

        codes = [answers[number].code for number in sorted(answers)]
        assert codes == [0] * (COUNT - 2) + [ResponseCode.SYSTEM_BUSY] * 2
        for first in (300_000, 400_000):
            again = await sender.exchange(frames_of(first, COUNT - 2))
            assert {answer.code for answer in again.values()} == {0}
        assert sum(together) >= FEW


async def test_under_sync_flush_they_are_answered_when_they_are_durable(
    tmp_path: Path, connect: Any, together: list[int]
) -> None:
    async with running(tmp_path / "x", flushDiskType="SYNC_FLUSH") as broker:
        await broker.send("orders", b"first", 3)
        sender = await connect(broker)

        for number in range(3):
            first = 100_000 + number * COUNT
            assert places(await sender.exchange(frames_of(first))) == expected(first, offset=number * COUNT // 3)
            assert broker.broker.store.flusher.durable_offset == broker.broker.store.log.end_offset

        assert sum(together) >= FEW


async def test_sends_that_are_not_durable_in_time_get_flush_disk_timeout(
    tmp_path: Path, connect: Any, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "x", flushDiskType="SYNC_FLUSH") as broker:
        await broker.send("orders", b"first", 3)
        sender = await connect(broker)
        await sender.exchange(frames_of(100_000))
        monkeypatch.setattr(broker.broker.store.flusher, "wake", lambda: None)
        monkeypatch.setattr(broker.broker.store._pending_acks, "_timeout_seconds", 0.001)

        answers = await sender.exchange(frames_of(200_000))

        assert sum(together) >= FEW
        assert {answer.code for answer in answers.values()} == {ResponseCode.FLUSH_DISK_TIMEOUT}
        assert [place[4] for place in places(answers)] == [f"u{number:06}" for number in sorted(answers)]


async def test_headers_that_keep_differing_are_left_alone_for_a_while(
    broker: BrokerFixture, connect: Any, together: list[int]
) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    first = 100_000
    for _ in range(4):
        frames = [
            frame
            for pair in zip(
                frames_of(first, names={"TAGS": "red"}), frames_of(first + COUNT, names={"TAGS": "tan"}), strict=True
            )
            for frame in pair
        ]
        answers = await sender.exchange(frames)
        assert {answer.code for answer in answers.values()} == {0}
        first += 2 * COUNT

    assert together == []
    tags = [message.tags for queue_id in range(3) for message in await broker.messages("orders", queue_id)]
    assert (tags.count("red"), tags.count("tan")) == (4 * COUNT, 4 * COUNT)


async def test_other_requests_between_collected_sends_are_answered(broker: BrokerFixture, connect: Any) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    sends = frames_of(100_000)
    for index in (5, 20):
        sends[index] = encode(JSON, code=RequestCode.GET_BROKER_RUNTIME_INFO, opaque=100_000 + index)
    # A header that is valid JSON, but whose code does not come first.
    fields = json.loads(FrameReader().feed(sends[30])[0][1])["extFields"]
    data = json.dumps({"opaque": 100_030, "code": 310, "extFields": fields}).encode()
    sends[30] = (len(data) + 4 + 5).to_bytes(4) + len(data).to_bytes(4) + data + b"other"

    answers = await sender.exchange(sends)

    assert {answer.code for answer in answers.values()} == {ResponseCode.SUCCESS}
    assert b"brokerVersion" in answers[100_005].body
    bodies = [message.body for queue_id in range(3) for message in await broker.messages("orders", queue_id)]
    assert len(bodies) == COUNT - 2
    # The order of arrival is the order in the queue.
    assert bodies.index(b"body100027") < bodies.index(b"other") < bodies.index(b"body100033")


async def test_a_malformed_send_among_collected_ones_is_refused_alone(broker: BrokerFixture, connect: Any) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    frames = frames_of(100_000)
    data = frames[7].replace(b'"e":"', b'"e":"x')[8:]
    header_size = int.from_bytes(frames[7][4:8]) + 1
    frames[7] = (len(data) + 4).to_bytes(4) + header_size.to_bytes(4) + data

    answers = await sender.exchange(frames)

    codes = {number: answer.code for number, answer in answers.items()}
    assert codes.pop(100_007) == ResponseCode.SYSTEM_ERROR
    assert set(codes.values()) == {ResponseCode.SUCCESS}
    stored = [len(await broker.messages("orders", queue_id)) for queue_id in range(3)]
    assert sum(stored) == COUNT - 1


@pytest.mark.parametrize("odd", ["other request", "unknown serialization"])
async def test_only_reads_that_consist_of_sends_are_collected(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    router, collected = broker.broker.router, list[int]()

    def collect(frames: Sequence[Frame], connection: Connection) -> bool:
        collected.append(len(frames))
        return True

    monkeypatch.setattr(router, "collect", collect)
    frames = FrameReader().feed(b"".join([*frames_of(1), *frames_of(1000, serialization=BINARY)]))
    connection: Any = None
    assert router.collects(frames, connection)

    if odd == "other request":
        data = encode(JSON, code=RequestCode.GET_ALL_TOPIC_CONFIG, opaque=1)
        frames[5] = FrameReader().feed(data)[0]
    else:
        _, header, body = frames[-1]
        frames[-1] = 7, header, body

    assert not router.collects(frames, connection)
    assert collected == [2 * COUNT]


async def test_a_single_send_before_a_block_is_stored_with_it(broker: BrokerFixture, connect: Any) -> None:
    await broker.send("orders", b"first", 3)
    alone, producer = await connect(), await connect()

    # Both write before the broker reads, so that one loop iteration brings a decoded request and a block.
    single, many = await asyncio.gather(alone.exchange(frames_of(1, 1)), producer.exchange(frames_of(100_000)))

    assert {answer.code for answer in [*single.values(), *many.values()]} == {ResponseCode.SUCCESS}
    stored = [len(await broker.messages("orders", queue_id)) for queue_id in range(3)]
    assert sum(stored) == COUNT + 1


async def test_sends_with_different_headers_are_decoded_together(
    broker: BrokerFixture, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    counts: list[int] = []
    decode_taken = Router.decode_taken

    def note(router: Router, frames: Sequence[Frame], origins: Sequence[Connection]) -> Any:
        counts.append(len(frames))
        return decode_taken(router, frames, origins)

    monkeypatch.setattr(Router, "decode_taken", note)
    frames = [frame for n in range(COUNT) for frame in frames_of(100_000 + n, 1, names={"KEYS": "k" * (n % 7 + 1)})]

    answers = await sender.exchange(frames)

    assert places(answers) == expected(100_000)
    assert sum(counts) == COUNT
    assert max(counts) >= FEW


async def test_all_sends_are_answered_if_a_template_fails(
    broker: BrokerFixture, connect: Any, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.send("orders", b"first", 3)
    senders = [await connect() for _ in range(2)]
    for sender, tags in zip(senders, ("red", "green"), strict=True):
        await sender.exchange(frames_of(100_000, names={"TAGS": tags}))
    made = HeaderColumns.read

    def read(known: HeaderColumns, serializations: list[int], headers: list[bytes]) -> EqualHeaders | None:
        if b"red" in known.after:
            raise MemoryError("no room for the headers")
        return made(known, serializations, headers)

    monkeypatch.setattr(HeaderColumns, "read", read)

    exchanged = [
        senders[0].exchange(frames_of(200_000, names={"TAGS": "red"})),
        senders[1].exchange(frames_of(300_000, names={"TAGS": "green"})),
    ]
    answers = await asyncio.gather(*exchanged)

    assert [{answer.code for answer in found.values()} for found in answers] == [{0}, {0}]
    assert sum(together) >= FEW
    stored = [message.body for queue_id in range(3) for message in await broker.messages("orders", queue_id)]
    assert len(stored) == 4 * COUNT
    assert len(set(stored)) == 3 * COUNT


async def test_if_columns_fail_all_are_handled_one_by_one(
    broker: BrokerFixture, connect: Any, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.send("orders", b"first", 3)
    senders = [await connect() for _ in range(2)]
    for first in (100_000, 200_000):
        await senders[0].exchange(frames_of(first))
    together.clear()

    def fail(*arguments: Any) -> None:
        raise MemoryError("no room for the columns")

    monkeypatch.setattr(SendColumns, "add_requests", fail)

    exchanged = [
        senders[0].exchange(frames_of(300_000)),
        senders[1].exchange(frames_of(400_000, names={"KEYS": "a key"})),
    ]
    answers = await asyncio.gather(*exchanged)

    assert [{answer.code for answer in found.values()} for found in answers] == [{0}, {0}]
    assert [sorted(found) for found in answers] == [list(range(first, first + COUNT)) for first in (300_000, 400_000)]
    stored = [message.body for queue_id in range(3) for message in await broker.messages("orders", queue_id)]
    assert len(set(stored)) == 4 * COUNT
    assert broker.broker.router._request_queues["send"].under_way == 0


async def test_a_broken_frame_after_sends_closes_the_connection_once_all_are_answered(
    broker: BrokerFixture, connect: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.send("orders", b"first", 3)
    sender = await connect()
    await sender.exchange(frames_of(100_000))

    # The last is refused, before which all others were stored.
    answers = await sender.exchange([*frames_of(200_000, queues=9), b"\xff" * 8], answers=COUNT)

    assert answers[200_000 + COUNT - 1].code == ResponseCode.INVALID_PARAMETER
    assert not await sender.reader.read()
    assert [record.message[:21] for record in caplog.records if record.levelname == "WARNING"] == [
        "closed the connection"
    ]
