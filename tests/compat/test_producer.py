"""Our producer on Apache's servers; Apache's client of the same version consumes its messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager

import pytest

from kerolox.client import CompressionType, Decision, Message, Producer, Received, TransactionProducer
from kerolox.client.messages import received
from kerolox.errors import KeroloxError, RequestCodeNotSupported
from kerolox.message.ids import RecallHandle, encode_handle
from kerolox.message.records.record import decode_all
from tests.apache import VERSIONS, servers
from tests.apache.processes import Process, run_java
from tests.apache.requirements import require_java
from tests.broker.brokers import pulling
from tests.compat.table import Part, Table
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

# Java brokers warm up slowly on two busy cores.
TIMEOUT_SECONDS = 20.0
SETTINGS = {"recallMessageEnable": "true", "transactionCheckInterval": "3000", "timerWheelEnable": "true"}


@pytest.fixture(scope="module", params=VERSIONS)
def apache(request: pytest.FixtureRequest) -> Iterator[tuple[str, Process]]:
    """A version, and its NameServer; a broker is registered with it."""
    require_java()
    version = request.param
    with ExitStack() as stack:
        name_server = stack.enter_context(servers.name_server(version))
        stack.enter_context(servers.broker(version, name_server.address, properties=SETTINGS))
        asyncio.run(until_listed(name_server.address))
        yield version, name_server


@asynccontextmanager
async def producing(server: Process, **keywords: object) -> AsyncIterator[Producer]:
    given = {"namesrv_addr": server.address, "send_timeout_seconds": TIMEOUT_SECONDS, **keywords}
    async with Producer("shop", **given) as producer:  # type: ignore[arg-type]
        yield producer


async def consumed(version: str, server: Process, topic: str, count: int) -> list[str]:
    """Return the bodies that Apache's client consumes from a topic, sorted."""
    group = f"{topic}-readers"
    completed = await asyncio.to_thread(
        run_java, version, "Consume.java", server.address, topic, group, str(count), "60"
    )
    assert f"consumed {count}\n" in completed.stdout, completed
    return completed.stdout.splitlines()[:-1]


async def pulled(producer: Producer, topic: str) -> Sequence[Received]:
    session = producer._session
    found: list[Received] = []
    for queue in (await session.routes.get(topic)).read_queues:
        address = session.routes.address(queue.broker_name)
        assert address is not None
        try:
            reply = await session.call(address, pulling(topic, queue.queue_id, 0), timeout_seconds=TIMEOUT_SECONDS)
        except KeroloxError:
            continue  # an empty queue
        found += [received(record, queue) for record in decode_all(reply.body)]
    return found


async def test_messages_of_every_kind_are_consumed(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    large = "large " * 1000
    with table.row(Part.OUR_CLIENT, "sends plain, oneway, in batches, ordered, delayed, compressed", version):
        async with producing(server) as producer:
            await producer.send(Message("kinds", b"plain", tag="t", keys=("k1", "k2"), properties={"color": "red"}))
            await producer.send_oneway(Message("kinds", b"oneway"))
            await producer.send([Message("kinds", b"batch-%d" % number) for number in range(3)])
            ordered = [await producer.send(Message("kinds", b"ordered-%d" % n), order_by="order-1") for n in range(3)]
            await producer.send(Message("kinds", b"after a second", delay_level=1))
        # Time and queue of the oneway message are unknown.
        offsets = [result.queue_offset for result in ordered]
        assert offsets == sorted(set(offsets))
        assert len({result.queue for result in ordered}) == 1
        for kind in CompressionType:
            async with producing(server, compress_type=kind) as producer:
                await producer.send(Message("kinds", f"{kind.name} {large}".encode()))
        async with producing(server, auto_batch=True) as producer:
            await asyncio.gather(*(producer.send(Message("kinds", b"auto-%02d" % n)) for n in range(20)))

        bodies = await consumed(version, server, "kinds", 32)

    assert bodies == sorted(
        [
            "plain",
            "oneway",
            "after a second",
            *(f"batch-{number}" for number in range(3)),
            *(f"ordered-{number}" for number in range(3)),
            *(f"{kind.name} {large}" for kind in CompressionType),
            *(f"auto-{number:02}" for number in range(20)),
        ]
    )


async def test_thousands_of_concurrent_sends_arrive(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "sends 2,000 messages from 2,000 tasks", version):
        async with producing(server) as producer:
            await producer.send(Message("crowd", b"first"))
            await asyncio.gather(*(producer.send(Message("crowd", b"%04d" % number)) for number in range(2000)))

        assert len(await consumed(version, server, "crowd", 2001)) == 2001


async def test_timer_messages_are_delivered_or_recalled(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "sends timer messages, and recalls one", version) as row:
        async with producing(server) as producer:
            if version.startswith("4."):
                row.result = "not before 5.0: delivered at once, recall is refused"
                await _expect_no_timer(version, server, producer)
                return
            await producer.send(Message("timed", b"at once"))
            await producer.send(Message("timed", b"in two seconds", delay_seconds=2))
            result = await producer.send(Message("timed", b"in five seconds, but taken back", delay_seconds=5))
            assert result.recall_handle is not None
            assert await producer.recall("timed", result.recall_handle) == result.message_id

        assert await consumed(version, server, "timed", 2) == ["at once", "in two seconds"]


async def _expect_no_timer(version: str, server: Process, producer: Producer) -> None:
    """A broker without timers delivers the message at once; its response does not tell."""
    result = await producer.send(Message("timed", b"in an hour", delay_seconds=3600))
    assert result.recall_handle is None
    handle = encode_handle(RecallHandle("timed", "broker-a", "1", result.message_id))
    with pytest.raises(RequestCodeNotSupported):
        await producer.recall("timed", handle)
    assert await consumed(version, server, "timed", 1) == ["in an hour"]


async def test_only_committed_messages_are_consumed(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    asked: list[bytes] = []

    async def check(message: Received) -> Decision:
        asked.append(message.body)
        return Decision.COMMIT

    with table.row(Part.OUR_CLIENT, "commits, rolls back, and answers transaction checks", version):
        given = {"namesrv_addr": server.address, "send_timeout_seconds": TIMEOUT_SECONDS}
        async with TransactionProducer("payers", check, **given) as producer:  # type: ignore[arg-type]
            for body, decision in (
                (b"kept", Decision.COMMIT),
                (b"dropped", Decision.ROLLBACK),
                (b"asked and kept", Decision.UNKNOWN),
            ):
                await producer.send_in_transaction(Message("paid", body), lambda message, it=decision: it)  # type: ignore[misc]

            assert await consumed(version, server, "paid", 2) == ["asked and kept", "kept"]
    assert asked == [b"asked and kept"]


async def test_a_request_gets_its_reply(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "sends a request, and a reply to it", version):
        async with producing(server) as asking, producing(server, instance_name="answering") as answering:
            waiting = asyncio.create_task(asking.request(Message("questions", b"2 + 2"), timeout_seconds=60))
            async with asyncio.timeout(60):
                while not (requests := await _pulled_if_any(answering, "questions")):
                    await asyncio.sleep(0.1)
            await answering.reply(requests[0], b"4")

            assert (await waiting).body == b"4"


async def _pulled_if_any(producer: Producer, topic: str) -> Sequence[Received]:
    try:
        return await pulled(producer, topic)
    except KeroloxError:
        return ()  # the topic does not exist yet
