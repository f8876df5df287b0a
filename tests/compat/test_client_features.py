"""Further features of our clients on Apache's servers, and exchange of messages with Apache's clients."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

import pytest

from kerolox.client import (
    ConsumeFrom,
    Consuming,
    Message,
    MessageQueue,
    Options,
    Producer,
    PullConsumer,
    PushConsumer,
    Received,
    Sending,
    Strategy,
    strategies,
    sync,
)
from tests.apache import VERSIONS, servers
from tests.apache.processes import java_command, run_java, running, temporary_home
from tests.apache.requirements import require_java
from tests.compat.table import Part, Table
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

# A Java broker warms up slowly on two busy cores.
TIMEOUT_SECONDS = 20.0
DEADLINE_SECONDS = 60.0
FIRST = ConsumeFrom.FIRST_OFFSET
# Retries start at the third level, which has a delay of one second here.
SETTINGS = {"messageDelayLevel": "1s 1s 1s 1s 1s 1s 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h"}


@dataclass(frozen=True, slots=True)
class Apache:
    version: str
    namesrv_addr: str

    def options(self, **keywords: object) -> Options:
        return Options(namesrv_addr=self.namesrv_addr, **keywords)  # type: ignore[arg-type]

    def producer(self, options: Options | None = None, **keywords: object) -> Producer:
        given = options or self.options()
        return Producer("shop", options=given, send_timeout_seconds=TIMEOUT_SECONDS, **keywords)  # type: ignore[arg-type]

    async def java(self, program: str, *arguments: str) -> list[str]:
        """Return the lines that one of Apache's clients prints until it ends."""
        completed = await asyncio.to_thread(run_java, self.version, program, self.namesrv_addr, *arguments)
        assert completed.code == 0, completed
        return completed.stdout.splitlines()


@pytest.fixture(scope="module", params=VERSIONS)
def apache(request: pytest.FixtureRequest) -> Iterator[Apache]:
    require_java()
    with ExitStack() as stack:
        name_server = stack.enter_context(servers.name_server(request.param))
        stack.enter_context(servers.broker(request.param, name_server.address, properties=SETTINGS))
        asyncio.run(until_listed(name_server.address))
        yield Apache(request.param, name_server.address)


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def pull_messages(
    apache: Apache, topic: str, count: int, *, group: str | None = None, options: Options | None = None
) -> list[Received]:
    """Return the first `count` messages of a topic that a pull consumer gets."""
    given = options or apache.options()
    async with PullConsumer(group or f"{topic}-readers", topics=topic, consume_from=FIRST, options=given) as pull:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return [await anext(pull) for _ in range(count)]


# Exchange of messages with Apache's clients


async def test_apaches_consumer_sees_all_members_of_our_messages(apache: Apache, table: Table) -> None:
    with table.row(Part.OUR_CLIENT, "a Java consumer sees tag, keys, flag, properties and id", apache.version):
        async with apache.producer() as producer:
            one = await producer.send(
                Message("said", b"one", tag="Größe", keys=("k1", "k2"), flag=7, properties={"größe": "𝄞 ü€", "a": "b"})
            )
            batch = await producer.send(
                [Message("said", b"t%d" % n, tag="T", keys=(f"k{n}",), properties={"number": str(n)}) for n in (2, 3)]
            )
        lines = await apache.java("Describe.java", "said", "said-readers", "3", "")

    assert [line.split("\t") for line in lines] == [
        ["one", one.message_id, "said", "Größe", "k1 k2", "7", "{a=b, größe=𝄞 ü€}"],
        ["t2", batch.message_ids[0], "said", "T", "k2", "0", "{number=2}"],
        ["t3", batch.message_ids[1], "said", "T", "k3", "0", "{number=3}"],
    ]


async def test_our_consumer_reads_every_kind_of_message_from_apaches_producer(apache: Apache, table: Table) -> None:
    has_timers = not apache.version.startswith("4.")
    hidden = {"rolled back", "pending", "delayed long", "timer long"}
    with table.row(Part.OUR_CLIENT, "reads messages of every kind from a Java producer", apache.version) as row:
        lines = await apache.java("Kinds.java", "kinds", "p", "20", str(has_timers).lower())
        assert lines.pop() == "sent"
        sent = {words[1]: words for words in (line.split("\t") for line in lines) if words[0] not in hidden}
        received = {message.message_id: message for message in await pull_messages(apache, "kinds", len(sent))}
        row.result = f"passed: {', '.join(dict.fromkeys(words[0] for words in sent.values()))}"

    assert received.keys() == sent.keys()
    for message_id, (_, _, _, _, digest, keys) in sent.items():
        message = received[message_id]
        assert hashlib.sha256(message.body).hexdigest() == digest
        assert message.keys == keys.split()
        assert message.properties["größe"].startswith("𝄞")
        assert message.flag == int(message.properties["number"])


async def test_request_reply_works_in_both_directions(apache: Apache, table: Table) -> None:
    with table.row(Part.OUR_CLIENT, "request-reply with Java clients, in both directions", apache.version):
        async with apache.producer() as producer:
            await producer.send(Message("asked", b"to make the topic"))
            with temporary_home() as home:
                command = java_command(apache.version, home, "Replies.java", apache.namesrv_addr, "asked")
                with running(command, home) as replier:
                    await asyncio.to_thread(replier.wait_for, "ready")
                    reply = await producer.request(Message("asked", b"from ours"), timeout_seconds=DEADLINE_SECONDS)
            assert reply.body == b"re: from ours"

            async def handle(messages: list[Received]) -> None:
                for message in messages:
                    if "REPLY_TO_CLIENT" in message.properties:
                        await producer.reply(message, b"re: " + message.body)

            await producer.send(Message("answered", b"to make the topic"))
            async with PushConsumer(
                "answering", handle, topics="answered", consume_from=FIRST, options=apache.options()
            ):
                assert await apache.java("Replies.java", "answered", "from theirs") == ["re: from theirs"]


async def test_a_namespace_is_shared_with_apaches_clients(apache: Apache, table: Table) -> None:
    inside = apache.options(namespace="MQ_INST_1")
    with table.row(Part.OUR_CLIENT, "a namespace, shared with a Java consumer", apache.version):
        async with apache.producer(inside) as producer:
            await producer.send(Message("spaced", b"inside", tag="T", keys=("k",)))
        assert [message.topic for message in await pull_messages(apache, "spaced", 1, options=inside)] == ["spaced"]
        assert (await pull_messages(apache, "MQ_INST_1%spaced", 1, group="outsiders"))[0].body == b"inside"
        (line,) = await apache.java("Describe.java", "spaced", "theirs", "1", "MQ_INST_1")
        assert line.split("\t")[:1] + line.split("\t")[2:3] == ["inside", "spaced"]


# Sending


async def test_messages_are_sent_to_a_given_or_selected_queue(apache: Apache, table: Table) -> None:
    def last(queues: object, message: Message) -> MessageQueue:
        return max(queues, key=lambda queue: queue.queue_id)  # type: ignore[call-overload,no-any-return]

    with table.row(Part.OUR_CLIENT, "sends to a given or selected queue", apache.version):
        async with apache.producer() as producer:
            await producer.send(Message("chosen", b"first"))
            queues = await producer.queues("chosen")
            given = [await producer.send(Message("chosen", b"x"), queue=queue) for queue in queues]
            selected = await producer.send(Message("chosen", b"y"), selector=last)
    assert [result.queue for result in given] == queues
    assert selected.queue == queues[-1]


async def test_messages_are_sent_to_the_vip_channel(apache: Apache, table: Table) -> None:
    with table.row(Part.OUR_CLIENT, "sends to the VIP channel", apache.version):
        async with apache.producer(apache.options(vip_channel_enabled=True)) as producer:
            await producer.send(Message("vip", b"by the second port"))
            port = int(producer._session.routes.address("broker-a").rpartition(":")[2])  # type: ignore[union-attr]
            assert producer._session._client.is_connected(f"127.0.0.1:{port - 2}")
        assert [message.body for message in await pull_messages(apache, "vip", 1)] == [b"by the second port"]


async def test_connections_are_encrypted(apache: Apache, table: Table) -> None:
    encrypted = apache.options(tls=True)
    with table.row(Part.OUR_CLIENT, "encrypts (TLS)", apache.version):
        async with apache.producer(encrypted) as producer:
            await producer.send(Message("encrypted", b"unseen"))
        bodies = [
            message.body for message in await pull_messages(apache, "encrypted", 1, options=apache.options(tls=True))
        ]
        assert bodies == [b"unseen"]


class RecordingHooks:
    """Hooks that record their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def before_send(self, sending: Sending) -> None:
        self.calls.append("sending")

    def after_send(self, sending: Sending) -> None:
        self.calls.append("sent" if sending.result else "not sent")

    def before_consume(self, consuming: Consuming) -> None:
        self.calls.append("consuming")

    def after_consume(self, consuming: Consuming) -> None:
        self.calls.append("consumed")


async def test_hooks_are_called(apache: Apache, table: Table) -> None:
    hook = RecordingHooks()
    received: list[Received] = []
    with table.row(Part.OUR_CLIENT, "calls hooks for sending and consuming", apache.version):
        async with apache.producer(hooks=[hook]) as producer:
            await producer.send(Message("hooked", b"body"))
        async with PushConsumer(
            "hooked", received.extend, topics="hooked", consume_from=FIRST, hooks=[hook], options=apache.options()
        ):
            await wait_until(lambda: received)
    assert hook.calls == ["sending", "sent", "consuming", "consumed"]


# Consuming


async def test_a_new_group_starts_at_its_configured_position(apache: Apache, table: Table) -> None:
    with table.row(Part.OUR_CLIENT, "starts at the first offset, the last offset, or a timestamp", apache.version):
        async with apache.producer() as producer:
            queue = (await producer.send(Message("begun", b"to make the topic"))).queue
            early = [await producer.send(Message("begun", b"early-%d" % n), queue=queue) for n in range(3)]
            first = (await pull_queue(apache, queue, "earliest", FIRST))[1]
            since = datetime.fromtimestamp(first.stored_millis / 1000)
        assert early[0].queue == queue

        bodies = [message.body for message in await pull_queue(apache, queue, "first", FIRST)]
        assert bodies == [b"to make the topic", b"early-0", b"early-1", b"early-2"]
        timed = await pull_queue(apache, queue, "timed", ConsumeFrom.TIMESTAMP, consume_timestamp=since)
        assert all(message.stored_millis >= first.stored_millis // 1000 * 1000 for message in timed)
        assert {b"early-0", b"early-1", b"early-2"} <= {message.body for message in timed}
        async with PullConsumer("last", options=apache.options()) as pull:
            await pull.assign([queue])
            # For a new topic, the broker returns offset 0 itself, as it does for Java's clients.
            assert await pull.committed(queue) in (None, 0)


async def pull_queue(
    apache: Apache, queue: MessageQueue, group: str, begin: ConsumeFrom, **keywords: object
) -> list[Received]:
    """Return the messages of a queue that a new group reads, up to the max offset."""
    given = {"consume_from": begin, "options": apache.options(), **keywords}
    async with PullConsumer(f"begun-{group}", **given) as pull, asyncio.timeout(DEADLINE_SECONDS):  # type: ignore[arg-type]
        await pull.assign([queue])
        end = await pull.max_offset(queue)
        messages = [await anext(pull)]
        while messages[-1].queue_offset < end - 1:
            messages.append(await anext(pull))
        return messages


async def test_a_message_that_always_fails_becomes_a_dead_letter(apache: Apache, table: Table) -> None:
    times: list[int] = []

    def handle(messages: list[Received]) -> None:
        times.extend(message.reconsume_times for message in messages)
        raise ValueError("never")

    with table.row(Part.OUR_CLIENT, "retries failed messages, then sends them to the DLQ", apache.version):
        async with apache.producer() as producer:
            await producer.send(Message("hopeless", b"body", keys=("k",)))
        async with PushConsumer(
            "hoping", handle, topics="hopeless", consume_from=FIRST, max_reconsume_times=2, options=apache.options()
        ):
            await wait_until(lambda: len(times) == 3)
            (dead,) = await pull_messages(apache, "%DLQ%hoping", 1)
    assert times == [0, 1, 2]
    assert (dead.body, dead.keys) == (b"body", ["k"])


@pytest.mark.parametrize(
    "strategy",
    [strategies.AVERAGELY, strategies.BY_CIRCLE, strategies.by_consistent_hash()],
    ids=lambda strategy: strategy.name,
)
async def test_members_of_a_group_share_the_queues(strategy: Strategy, apache: Apache, table: Table) -> None:
    topic = f"shared-{strategy.name}"
    bodies: list[bytes] = []

    async def handle(messages: list[Received]) -> None:
        bodies.extend(message.body for message in messages)

    def member() -> PushConsumer:
        return PushConsumer(
            topic, handle, topics=topic, consume_from=FIRST, strategy=strategy, options=apache.options()
        )

    with table.row(
        Part.OUR_CLIENT, f"rebalances queues by {strategy.name} when members join and leave", apache.version
    ):
        async with apache.producer() as producer:
            await producer.send(Message(topic, b"0"))
            queues = [queue.queue_id for queue in await producer.queues(topic)]

            def is_shared(*members: PushConsumer) -> bool:
                owned = [queue.queue_id for each in members for queue in each.assigned if queue.topic == topic]
                return sorted(owned) == queues

            async with member() as first:
                await wait_until(lambda: is_shared(first))
                async with member() as second, member() as third:
                    await wait_until(lambda: is_shared(first, second, third) and not is_shared(first))
                    for number in range(1, 20):
                        await producer.send(Message(topic, b"%d" % number))
                    await wait_until(lambda: set(bodies) == {b"%d" % number for number in range(20)})
                await wait_until(lambda: is_shared(first))


def test_the_blocking_client_sends_pushes_and_pulls(apache: Apache, table: Table) -> None:
    received: list[Received] = []
    with table.row(Part.OUR_CLIENT, "sends, pushes and pulls with the blocking API", apache.version):
        with sync.Producer("shop", options=apache.options(), send_timeout_seconds=TIMEOUT_SECONDS) as producer:
            producer.send(Message("blocking", b"body"))
        with sync.PushConsumer(
            "pushed", received.extend, topics="blocking", consume_from=FIRST, options=apache.options()
        ):
            asyncio.run(wait_until(lambda: received))
        with sync.PullConsumer("pulled", topics="blocking", consume_from=FIRST, options=apache.options()) as pull:
            assert next(iter(pull)).body == b"body"
