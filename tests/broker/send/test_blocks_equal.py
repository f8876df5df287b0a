"""Sends with equal headers leave the same log, and get the same responses, as if each was handled alone."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerolox.broker.send import collector
from kerolox.broker.send.header_blocks import FEW
from kerolox.message import hosts
from kerolox.remoting.address import parse_address
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.event_loop import new_loop
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT, decode, encode
from kerolox.wire.frames import FrameReader
from kerolox.wire.headers.messages import SendMessage, SendMessageV2
from tests.broker.brokers import BrokerFixture, running

# So that both have the same address, however they are reached.
PROXY = b"PROXY TCP4 203.0.113.9 127.0.0.1 5555 9876\r\n"


class Kind(NamedTuple):
    """The fields that all messages of one producer share."""

    header: type[SendMessage] | type[SendMessageV2]
    serialization: int
    before: str
    after: str
    key_size: int
    flag: int
    sys_flag: int
    message_flag: int
    reconsume_times: int | None


class Exchange(NamedTuple):
    """Frames that leave in one write. At most one of them differs in queue, time, key or body."""

    kind: Kind
    opaque: int
    body_sizes: list[int]
    odd: tuple[int, str] | None


kinds = st.builds(
    Kind,
    st.sampled_from([SendMessage, SendMessageV2]),
    st.sampled_from([JSON, BINARY]),
    st.sampled_from(["", "own\x01a\x02", "TAGS\x01red\x02"]),
    st.sampled_from(["", "\x02", "\x02WAIT\x01true\x02", "\x02own\x01ä b/c\x02", "\x02KEYS\x01a b\x02"]),
    st.sampled_from([12, 32, 63]),
    st.sampled_from([0, 0, 0, ONEWAY_BIT]),
    st.sampled_from([0, 1, 0x30]),
    st.sampled_from([0, -1, 2**31 - 1]),
    st.sampled_from([None, 0, 3]),
)
sizes = st.sampled_from([1, 100, 100, 1_500]).flatmap(
    lambda size: st.lists(st.sampled_from([size, size, size + 1]) if size == 100 else st.just(size), min_size=1)
)
exchanges = st.builds(
    Exchange,
    kinds,
    st.sampled_from([1_000, 50_000, 999_990_000, 90, 2**31 - 1_000, -1_000]),
    st.tuples(st.sampled_from([1, FEW, 3 * FEW]), sizes).map(lambda drawn: (drawn[1] * drawn[0])[: 4 * FEW]),
    st.none() | st.tuples(st.integers(0, 2 * FEW), st.sampled_from(["queue", "time", "key", "body"])),
)


def frames_of(exchange: Exchange, first: int) -> list[bytes]:
    kind, odd = exchange.kind, exchange.odd
    frames = []
    for number, size in enumerate(exchange.body_sizes):
        what = odd[1] if odd is not None and odd[0] == number else ""
        key = f"{first + number}".rjust(kind.key_size, "k")
        header = kind.header(
            producer_group="producers",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number % 3 if what != "queue" else 9,
            sys_flag=kind.sys_flag,
            born_timestamp=1_700_000_000_000 + number if what != "time" else -70_000_000_000,
            flag=kind.message_flag,
            properties=f"{kind.before}UNIQ_KEY\x01{key if what != 'key' else '-' + key[1:]}{kind.after}",
            reconsume_times=kind.reconsume_times,
        )
        body = f"{first + number},".encode() * size
        frames.append(
            encode(
                kind.serialization,
                code=header.code,
                opaque=exchange.opaque + number,
                flag=kind.flag,
                ext=header.ext(),
                body=body[:size] if what != "body" else b"",
            )
        )
    return frames


async def carried_out(plan: list[Exchange], directory: Path) -> tuple[bytes, list[dict[int, bytes]]]:
    """Return the log, and the answers of each exchange by what they answer."""
    async with running(directory, ManualClock(), proxyProtocolTrustedAddresses="127.0.0.1") as broker:
        broker.broker.parts.message_put.store_host = hosts.parse("10.0.0.1:10911")
        broker.broker.topics.create("orders", 4)
        reader, writer = await asyncio.open_connection(*parse_address(broker.broker.address))
        writer.write(PROXY)
        answers = [await answered(frames, reader, writer) for frames in framed(plan)]
        writer.close()
        await writer.wait_closed()
        assert broker.broker.router._request_queues["send"].under_way == 0
        return log_of(broker), answers


def framed(plan: list[Exchange]) -> list[list[bytes]]:
    counts = itertools.accumulate((len(exchange.body_sizes) for exchange in plan), initial=1000)
    # The last of each is stored and answered when all others are.
    usual = Kind(SendMessageV2, JSON, "", "", 12, 0, 0, 0, None)
    (last,) = frames_of(Exchange(usual, 77_777_777, [1], None), 0)
    return [[*frames_of(exchange, first), last] for exchange, first in zip(plan, counts, strict=False)]


async def answered(frames: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[int, bytes]:
    wanted = {command.opaque for command in map(decode, FrameReader().feed(b"".join(frames))) if not command.is_oneway}
    found: dict[int, bytes] = {}
    cut = FrameReader()
    async with asyncio.timeout(10):
        for part, count in ((frames[:-1], len(wanted) - 1), (frames[-1:], len(wanted))):
            writer.write(b"".join(part))
            while len(found) < count:
                for serialization, header, body in cut.feed(await reader.read(1 << 20)):
                    opaque = decode((serialization, header, body)).opaque
                    assert opaque not in found
                    found[opaque] = bytes((serialization,)) + header + body
    assert found.keys() == wanted
    return found


def log_of(broker: BrokerFixture) -> bytes:
    log = broker.broker.store.log
    parts, at = [], log.first_offset
    while at < log.end_offset:
        parts.append(log.read(at, log.next_file_start(at) - at))
        at += len(parts[-1])
    return b"".join(parts)


def repeated(exchange: Exchange) -> list[Exchange]:
    """The first of them is learnt from."""
    return [exchange._replace(body_sizes=[100] * 3 * FEW, odd=None), exchange, exchange._replace(odd=None), exchange]


@given(st.lists(exchanges.map(repeated), min_size=1, max_size=4).map(lambda plans: list(itertools.chain(*plans))))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_log_and_the_answers_are_the_same_as_one_by_one(plan: list[Exchange]) -> None:
    with tempfile.TemporaryDirectory() as directory, asyncio.Runner(loop_factory=new_loop) as runner:
        together = runner.run(carried_out(plan, Path(directory) / "together"))
        with mock.patch.object(collector, "COLUMNS_MIN", 10**9):
            alone = runner.run(carried_out(plan, Path(directory) / "alone"))

    assert together == alone
