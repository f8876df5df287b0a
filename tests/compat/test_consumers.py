"""Our consumers on Apache's servers, in a group with an Apache consumer, and under Apache's tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from kerolox.client import (
    Consumed,
    ConsumeFrom,
    Message,
    MessageModel,
    MessageQueue,
    Options,
    Producer,
    PullConsumer,
    PushConsumer,
    Received,
    SimpleConsumer,
    Sql92,
    Tracing,
)
from kerolox.client.tracing import trace_format
from kerolox.errors import RequestCodeNotSupported
from tests.apache import VERSIONS, servers
from tests.apache.admin import mqadmin
from tests.apache.processes import Process, run_java
from tests.apache.requirements import require_java
from tests.client.sessions import session_of
from tests.compat.table import Part, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

# A Java broker warms up slowly on two busy cores.
TIMEOUT_SECONDS = 60.0
SETTINGS = {"enablePropertyFilter": "true", "traceTopicEnable": "true"}

Apache = tuple[str, Options]


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, Process]]:
    require_java()
    with ExitStack() as stack:
        name_server = stack.enter_context(servers.name_server(request.param))
        stack.enter_context(servers.broker(request.param, name_server.address, properties=SETTINGS))
        yield request.param, name_server


@pytest.fixture
def apache(server: tuple[str, Process]) -> Apache:
    """A version, and options for a client of its servers."""
    return server[0], Options(namesrv_addr=server[1].address)


def new_options(options: Options) -> Options:
    """Return options for another client, with its own client id."""
    return Options(namesrv_addr=options.namesrv_addr)


async def send(options: Options, *messages: Message) -> None:
    async with Producer("shop", options=new_options(options), send_timeout_seconds=TIMEOUT_SECONDS) as producer:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await _wait_for_broker(producer)
        for message in messages:
            await producer.send(message, order_by=0)


async def _wait_for_broker(producer: Producer) -> None:
    """A broker that answers requests may not be registered with its NameServer yet."""
    while await producer._session.routes.refresh("TBW102") is None:
        await asyncio.sleep(0.1)


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


def has_length(items: list[bytes], count: int) -> bool:
    return len(items) == count


async def test_pushed_messages_are_consumed_and_failed_ones_redelivered(apache: Apache, table: Table) -> None:
    version, options = apache
    calls: list[tuple[bytes, int]] = []

    async def handle(messages: list[Received]) -> Consumed | None:
        (message,) = messages
        calls.append((message.body, message.reconsume_times))
        return Consumed.later(delay_level=1) if calls == [(b"bad", 0)] else None

    with table.row(Part.OUR_CLIENT, "consumes, retries a message, continues at its offset", version):
        await send(options, Message("pushed", b"bad"), Message("pushed", b"good"))
        first = ConsumeFrom.FIRST_OFFSET
        async with PushConsumer("pushers", handle, topics="pushed", consume_from=first, options=new_options(options)):
            await wait_until(lambda: len(calls) == 3)
        await send(options, Message("pushed", b"later"))
        async with PushConsumer("pushers", handle, topics="pushed", consume_from=first, options=new_options(options)):
            await wait_until(lambda: len(calls) == 4)

    assert calls == [(b"bad", 0), (b"good", 0), (b"bad", 1), (b"later", 0)]


async def test_tags_and_expressions_filter_messages(apache: Apache, table: Table) -> None:
    version, options = apache
    with table.row(Part.OUR_CLIENT, "selects by tags and by SQL92", version):
        await send(
            options,
            Message("chosen", b"a", tag="TagA", properties={"price": "5"}),
            Message("chosen", b"b", tag="TagB", properties={"price": "50"}),
            Message("chosen", b"c", tag="TagC", properties={"price": "500"}),
        )
        for group, expression, expected in (
            ("tagged", "TagA || TagC", [b"a", b"c"]),
            ("priced", Sql92("price > 10"), [b"b", b"c"]),
        ):
            bodies: list[bytes] = []

            def handle(messages: list[Received], bodies: list[bytes] = bodies) -> None:
                bodies.extend(message.body for message in messages)

            async with PushConsumer(
                group,
                handle,
                topics={"chosen": expression},
                consume_from=ConsumeFrom.FIRST_OFFSET,
                options=new_options(options),
            ):
                await wait_until(partial(has_length, bodies, 2))
            assert sorted(bodies) == expected


async def test_order_is_kept_when_a_handler_fails_and_members_join(apache: Apache, table: Table) -> None:
    version, options = apache
    bodies: list[bytes] = []
    has_failed = False

    async def handle(messages: list[Received]) -> None:
        nonlocal has_failed
        if messages[0].body == b"005" and not has_failed:
            has_failed = True
            raise ValueError("not yet")
        bodies.extend(message.body for message in messages)

    def orderly() -> PushConsumer:
        return PushConsumer(
            "orderlies",
            handle,
            topics="ordered",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            is_orderly=True,
            suspend_current_queue_seconds=0.1,
            options=new_options(options),
        )

    with table.row(Part.OUR_CLIENT, "consumes in order, with locks on queues", version):
        await send(options, *(Message("ordered", b"%03d" % number) for number in range(20)))
        async with orderly() as first, orderly() as second:
            await wait_until(lambda: len(bodies) >= 20)
            await wait_until(lambda: first.assigned and second.assigned)
    assert list(dict.fromkeys(bodies)) == [b"%03d" % number for number in range(20)]


async def test_each_broadcast_consumer_reads_all_messages(apache: Apache, table: Table, tmp_path: Path) -> None:
    version, options = apache
    bodies: list[bytes] = []

    async def handle(messages: list[Received]) -> None:
        bodies.extend(message.body for message in messages)

    def broadcasting() -> PushConsumer:
        return PushConsumer(
            "broadcasters",
            handle,
            topics="broadcast",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            message_model=MessageModel.BROADCASTING,
            local_offset_store_dir=tmp_path,
            options=new_options(options),
        )

    with table.row(Part.OUR_CLIENT, "broadcasts", version):
        await send(options, Message("broadcast", b"to all"))
        async with broadcasting(), broadcasting():
            await wait_until(lambda: bodies == [b"to all"] * 2)


async def test_pull_starts_at_any_offset(apache: Apache, table: Table) -> None:
    version, options = apache
    with table.row(Part.OUR_CLIENT, "pulls by assignment and by subscription, seeks, commits", version):
        await send(options, *(Message("pulled", b"%d" % number) for number in range(10)))
        async with PullConsumer("pullers", options=new_options(options)) as pull:
            queues: dict[MessageQueue, int] = {
                queue: await pull.max_offset(queue) for queue in await pull.queues("pulled")
            }
            queue = max(queues, key=lambda queue: queues[queue])
            await pull.assign([queue])
            await pull.seek(queue, 4)
            assert [message.body for message in await pull.poll(3, timeout_seconds=TIMEOUT_SECONDS)] == [
                b"4",
                b"5",
                b"6",
            ]
            await pull.commit()
            assert await pull.committed(queue) == 7
        async with PullConsumer("pullers", topics="pulled", options=new_options(options)) as pull:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                bodies = [(await anext(pull)).body for _ in range(3)]
            assert bodies == [b"7", b"8", b"9"]


async def test_a_consumer_that_leaves_at_once_is_unregistered(apache: Apache, table: Table) -> None:
    """A broker registers the first member of a group slowly, because it creates the retry topic of the group."""
    version, options = apache
    with table.row(Part.OUR_CLIENT, "leaves a group it has just joined", version):
        await send(options, Message("visited", b"body"))
        async with session_of(new_options(options)) as session:
            for number in range(10):
                async with PullConsumer(f"visitors{number}", options=new_options(options)) as pull:
                    await pull.queues("visited")
            for number in range(10):
                assert await session.consumer_ids("visited", f"visitors{number}") == []


async def test_messages_are_popped_and_acknowledged(apache: Apache, table: Table) -> None:
    version, options = apache
    with table.row(Part.OUR_CLIENT, "pops, acks, changes the invisible time, gets messages again", version) as row:
        await send(options, Message("popped", b"lost"), Message("popped", b"done"))
        async with SimpleConsumer(
            "poppers", topics="popped", consume_from=ConsumeFrom.FIRST_OFFSET, options=new_options(options)
        ) as simple:
            if version.startswith("4."):
                row.result = "not before 5.0: refused"
                with pytest.raises(RequestCodeNotSupported):
                    await simple.receive()
                return
            taken: list[Received] = []
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while len(taken) < 2:
                    taken += await simple.receive(invisible_seconds=30, wait_seconds=5)
            lost, done = sorted(taken, key=lambda message: message.body, reverse=True)
            await simple.ack(done)
            await simple.change_invisible(lost, 10)
            async with asyncio.timeout(2 * TIMEOUT_SECONDS):
                while not (again := await simple.receive(wait_seconds=10)):
                    pass
            assert [(message.body, message.reconsume_times) for message in again] == [(b"lost", 1)]
            await simple.ack(*again)


async def test_messages_are_popped_in_order(apache: Apache, table: Table) -> None:
    version, options = apache
    with table.row(Part.OUR_CLIENT, "pops in order, acks several messages at once", version) as row:
        await send(options, *(Message("popped-in-order", b"%d" % number) for number in range(6)))
        async with SimpleConsumer(
            "orderlies",
            topics="popped-in-order",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            is_ordered=True,
            options=new_options(options),
        ) as simple:
            if version.startswith("4."):
                row.result = "not before 5.0: refused"
                with pytest.raises(RequestCodeNotSupported):
                    await simple.receive()
                return
            one, two = await simple.receive(2, wait_seconds=TIMEOUT_SECONDS)
            assert await simple.receive(wait_seconds=0) == []
            await simple.ack(one, two)
            three, four = await simple.receive(2, wait_seconds=TIMEOUT_SECONDS)
            await simple.ack(three)
            await simple.change_invisible(four, 1)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not (again := await simple.receive(wait_seconds=1)):
                    pass
            await simple.ack(*again)
            bodies = [message.body for message in (one, two, three, four, *again)]
            assert bodies == [b"0", b"1", b"2", b"3", b"3", *(b"%d" % n for n in range(4, 3 + len(again)))]
            assert [message.reconsume_times for message in again[:1]] == [1]
            if len(again) < 3:
                rest = await simple.receive(wait_seconds=TIMEOUT_SECONDS)
                assert [message.body for message in again + rest] == [b"3", b"4", b"5"]


async def test_a_group_has_members_of_kerolox_and_java(
    apache: Apache, server: tuple[str, Process], table: Table
) -> None:
    version, options = apache
    bodies: list[bytes] = []

    async def handle(messages: list[Received]) -> None:
        bodies.extend(message.body for message in messages)

    with table.row(Part.OUR_CLIENT, "shares a group with a Java consumer", version):
        await send(options, Message("shared", b"before"))
        async with PushConsumer(
            "sharers", handle, topics="shared", consume_from=ConsumeFrom.FIRST_OFFSET, options=new_options(options)
        ) as push:
            await wait_until(lambda: bodies == [b"before"])
            java = asyncio.create_task(
                asyncio.to_thread(run_java, version, "Consume.java", server[1].address, "shared", "sharers", "20", "60")
            )

            def assigned() -> list[MessageQueue]:
                return [queue for queue in push.assigned if queue.topic == "shared"]

            await wait_until(lambda: len(assigned()) == 2)
            async with Producer("shop", options=new_options(options), send_timeout_seconds=TIMEOUT_SECONDS) as producer:
                for number in range(40):
                    await producer.send(Message("shared", b"%02d" % number), order_by=number)
                completed = await java
            theirs = [line.encode() for line in completed.stdout.splitlines()[:-1]]
            # After the Java consumer has left, all queues are assigned to ours again.
            await wait_until(lambda: len(assigned()) == 4)
            await wait_until(
                lambda: set(bodies) | set(theirs) == {b"before", *(b"%02d" % number for number in range(40))}
            )


async def test_traces_are_found_by_apaches_tools(apache: Apache, table: Table) -> None:
    version, options = apache
    started = int(time.time() * 1000)
    with table.row(Part.OUR_CLIENT, "traces consumption", version):
        await send(options, Message("traced", b"body", keys=("key-1",)))
        received: list[Received] = []

        async def handle(messages: list[Received]) -> None:
            received.extend(messages)

        async with PushConsumer(
            "tracers",
            handle,
            topics="traced",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            enable_trace=True,
            options=new_options(options),
        ):
            await wait_until(lambda: received)
        async with PullConsumer(
            "trace-readers",
            topics=trace_format.TRACE_TOPIC,
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=new_options(options),
        ) as pull:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                message = await anext(pull)
        before, after = trace_format.decode(message.body.decode())
        assert isinstance(before, trace_format.SubBefore)
        assert isinstance(after, trace_format.SubAfter)
        assert before.message_id == after.message_id == received[0].message_id
        assert before.timestamp >= started
        assert message.keys == [received[0].message_id, "key-1"]


async def test_apaches_tools_see_consumers_and_reset_their_offsets(
    apache: Apache, server: tuple[str, Process], table: Table
) -> None:
    version, options = apache
    received: list[Received] = []

    async def handle(messages: list[Received]) -> None:
        received.extend(messages)

    async def tool(*arguments: str) -> str:
        completed = await asyncio.to_thread(mqadmin, version, *arguments, namesrv=server[1].address)
        return completed.stdout + completed.stderr

    with table.row(
        Part.OUR_CLIENT, "is inspected and reset by mqadmin: status, direct consumption, resets, traces", version
    ):
        async with (
            Tracing(options=new_options(options)) as tracing,
            Producer(
                "shop", options=new_options(options), send_timeout_seconds=TIMEOUT_SECONDS, hooks=[tracing]
            ) as producer,
        ):
            sent = await producer.send(Message("watched", b"body", keys=("key-1",)))
        mine = new_options(options)
        async with PushConsumer(
            "watched-group",
            handle,
            topics="watched",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            enable_trace=True,
            options=mine,
        ) as push:
            await wait_until(lambda: received)
            assert mine.client_id in await tool("consumerConnection", "-g", "watched-group")
            status = await tool("consumerStatus", "-g", "watched-group", "-i", mine.client_id)
            assert "#Consumer Offset#" in status
            assert "watched" in status
            topic = () if version.startswith("4.") else ("-t", "watched")
            direct = await tool(
                "queryMsgById", "-i", sent.offset_id, "-g", "watched-group", "-d", mine.client_id, *topic
            )
            assert "CR_SUCCESS" in direct
            assert len(received) == 2
            # Before 5.x, a group is reset only if it has offsets for all queues, which it has after long polls end.
            await wait_until(lambda: len(push.status("watched")) == 4)
            await push._persist(wait_for_response=True)
            await tool("resetOffsetByTime", "-g", "watched-group", "-t", "watched", "-s", "1000")
            await wait_until(lambda: len(received) == 3)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while "#" not in (found := await tool("queryMsgTraceById", "-i", sent.message_id)) or "Sub" not in found:
                await asyncio.sleep(0.5)
        assert "watched-group" in found
