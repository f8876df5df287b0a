"""Random mixed traffic leaves the same log, queues, index and counts, and gets the same responses, as one by one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kerolox.message import hosts
from kerolox.message.records import batch
from kerolox.remoting.address import parse_address
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.event_loop import new_loop
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT, encode
from kerolox.wire.headers.messages import SendBatchMessage, SendMessage, SendMessageV2
from tests.broker.brokers import running
from tests.broker.send.test_blocks_equal import PROXY, answered, log_of

TOPICS = [f"topic-{number}" for number in range(12)]
QUEUES = 4
COUNT = 300
# Sent in so many frames at once, so that one loop iteration gets plain and other sends of many topics.
TOGETHER = 100


def mixed_frames(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    return [_frame(chance, number) for number in range(COUNT)]


def _frame(chance: random.Random, number: int) -> bytes:
    kind = chance.choices(["plain", "unusual", "batch", "refused"], [70, 12, 14, 4])[0]
    properties = {"UNIQ_KEY": f"KEY{number:05d}{'X' * chance.choice((0, 8, 24))}", "WAIT": "true"}
    if chance.random() < 0.7:
        properties["KEYS"] = " ".join(f"k{chance.randrange(50)}" for _ in range(chance.randint(1, 3)))
    if chance.random() < 0.6:
        properties["TAGS"] = chance.choice(["red", "green", "rötlich"])
    if chance.random() < 0.3:
        properties[f"own{chance.randrange(9)}"] = "v" * chance.randrange(40)
    if kind == "unusual":
        properties |= chance.choice([{"WAIT": "false"}, {"DELAY": "3"}, {"UNIQ_KEY": f"not-plain-{number}"}])
    header = chance.choice([SendMessage, SendMessageV2])(
        producer_group=f"producers-{chance.randrange(3)}",
        topic=chance.choice(TOPICS),
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=chance.randrange(QUEUES) if kind != "refused" else QUEUES,
        sys_flag=0,
        born_timestamp=1_700_000_000_000 + chance.randrange(10**6),
        flag=chance.choice([0, 0, 7]),
        properties=_joined(chance, properties),
        reconsume_times=chance.choice([None, 0, 2]),
    )
    body = chance.randbytes(chance.choice([1, 30, 300, 5_000]))
    if kind == "batch":
        return _batch(chance, header, number)
    serialization, flag = chance.choice([JSON, BINARY]), chance.choice([0] * 9 + [ONEWAY_BIT])
    return encode(serialization, code=header.code, opaque=number, flag=flag, ext=header.ext(), body=body)


def _batch(chance: random.Random, header: Any, number: int) -> bytes:
    is_even = chance.random() < 0.6
    parts = [
        batch.Part(
            chance.randbytes(20 if is_even else chance.randrange(1, 400)),
            _joined(chance, {"UNIQ_KEY": f"B{number:05d}{at:03d}"} | ({} if is_even else {"KEYS": f"k{at}"})).encode(),
            0 if is_even else chance.choice([0, 7]),
        )
        for at in range(chance.choice([1, 3, 32]))
    ]
    shared = chance.choice([{}, {}, {"UNIQ_KEY": f"whole{number}"}, {"UNIQ_KEY": f"not-plain-{number}"}])
    unusual = chance.choice([{}] * 7 + [{"WAIT": "false"}, {"DELAY": "3"}])
    fields = {name: getattr(header, name) for name in SendMessage.__struct_fields__}
    fields |= {"batch": True, "properties": _joined(chance, {"WAIT": "true"} | shared | unusual)}
    request = chance.choice([SendBatchMessage, SendBatchMessage, SendMessageV2])(**fields)
    body = batch.encode(parts)
    if chance.random() < 0.05:
        body = body[:-1]
    serialization, flag = chance.choice([JSON, BINARY]), chance.choice([0] * 9 + [ONEWAY_BIT])
    return encode(serialization, code=request.code, opaque=number, flag=flag, ext=request.ext(), body=body)


def _joined(chance: random.Random, properties: dict[str, str]) -> str:
    pairs = list(properties.items())
    chance.shuffle(pairs)
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs)


async def carried_out(exchanges: Sequence[list[bytes]], directory: Path) -> dict[str, Any]:
    """Return everything that the sends leave behind."""
    async with running(directory, ManualClock(), proxyProtocolTrustedAddresses="127.0.0.1") as fixture:
        broker = fixture.broker
        broker.parts.message_put.store_host = hosts.parse("10.0.0.1:10911")
        for topic in TOPICS:
            broker.topics.create(topic, QUEUES)
        reader, writer = await asyncio.open_connection(*parse_address(broker.address))
        writer.write(PROXY)
        responses: dict[int, bytes] = {}
        for frames in exchanges:
            responses |= await answered(frames, reader, writer)
        writer.close()
        await writer.wait_closed()
        assert broker.router._request_queues["send"].under_way == 0
        store = broker.store
        assert store.index is not None
        return {
            "log": log_of(fixture),
            "responses": responses,
            "queues": {key: queue.read(0, COUNT) for key, queue in store.queues.items()},
            "index": {
                (topic, key): store.index.query(topic, b"k%d" % key, COUNT) for topic in TOPICS for key in range(50)
            },
            "counts": {topic: fixture.counted("TOPIC_PUT_NUMS", topic) for topic in TOPICS},
            "sizes": {
                topic: found[0].size for topic in TOPICS if (found := broker.statistics.find("TOPIC_PUT_SIZE", topic))
            },
        }


@pytest.mark.parametrize("seed", range(4))
def test_mixed_sends_leave_the_same_as_one_by_one(seed: int, tmp_path: Path) -> None:
    frames = mixed_frames(seed)
    last = encode(JSON, code=310, opaque=COUNT, ext=_last().ext(), body=b"last")
    together = [[*frames[start : start + TOGETHER], last] for start in range(0, COUNT, TOGETHER)]
    alone = [[frame] for part in together for frame in part]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        found = runner.run(carried_out(together, tmp_path / "together"))
        expected = runner.run(carried_out(alone, tmp_path / "alone"))

    assert len(found["log"]) > COUNT * 200
    assert 0 < sum(found["sizes"].values()) <= len(found["log"])
    for name, value in expected.items():
        assert found[name] == value, name


def _last() -> SendMessageV2:
    """A request whose response arrives after all others of its write."""
    return SendMessageV2(
        producer_group="producers",
        topic=TOPICS[0],
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="UNIQ_KEY\x01LAST\x02",
    )
