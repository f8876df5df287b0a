"""Our clients on Apache's brokers with ACL enabled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from kerolox.admin import AdminClient
from kerolox.client import (
    Consumed,
    ConsumeFrom,
    Decision,
    Message,
    Options,
    Producer,
    PullConsumer,
    PushConsumer,
    Received,
    SendFailed,
    SimpleConsumer,
    TransactionProducer,
)
from kerolox.errors import KeroloxError, NoPermission
from kerolox.spark.options import read_options
from kerolox.spark.read.task import read_task
from kerolox.spark.schema import topic_schema
from kerolox.spark.sink import TableWrite, WriteOptions
from kerolox.spark.source import BatchReader
from kerolox.spark.write.writer import WriteFailed
from kerolox.wire.bodies.auth import PolicyEntry
from tests.apache import VERSIONS, servers
from tests.apache.requirements import require_java
from tests.compat.acl_brokers import ROOT, SHOP, acl_broker
from tests.compat.table import Part, Table
from tests.compat.waiting import until_listed

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

# A Java broker warms up slowly on two busy cores.
TIMEOUT_SECONDS = 20.0
DEADLINE_SECONDS = 60.0

INVALID_CREDENTIALS: dict[str, dict[str, str]] = {
    "no key": {},
    "an unknown key": {"access_key": "rocketmq-ghost", "secret_key": "shop-12345678"},
    "a wrong secret": {"access_key": SHOP["access_key"], "secret_key": "12345678-shop"},
}
# Error remarks of brokers of 4.9 and of 5.x.
REASONS = {
    "no key": ("No accessKey is configured", "username cannot be null"),
    "an unknown key": ("No acl config for rocketmq-ghost", "User:rocketmq-ghost is not found"),
    "a wrong secret": ("Check signature failed for accessKey=rocketmq-shop", "check signature failed"),
}

_POLICIES_5X = [
    PolicyEntry(resource="Topic:orders", actions=["Pub", "Sub", "Get"], decision="Allow"),
    PolicyEntry(resource="Topic:readable", actions=["Sub"], decision="Allow"),
    *(PolicyEntry(resource=f"Group:{name}", actions=["Sub"], decision="Allow") for name in ("billing", "stock")),
]


class AclCluster:
    """Creates clients of a cluster of one version."""

    def __init__(self, version: str, namesrv_addr: str) -> None:
        self.version = version
        self._namesrv_addr = namesrv_addr

    @property
    def is_4x(self) -> bool:
        return self.version.startswith("4.")

    def options(self, keys: dict[str, str]) -> Options:
        return Options(namesrv_addr=self._namesrv_addr, **keys)  # type: ignore[arg-type]

    def spark_options(self, given: dict[str, str]) -> dict[str, str]:
        """Return the options of a Spark source or sink."""
        return {"nameServer": self._namesrv_addr, **given}

    def admin(self, keys: dict[str, str]) -> AdminClient:
        return AdminClient(options=self.options(keys), timeout_seconds=TIMEOUT_SECONDS)

    def producer(self, keys: dict[str, str]) -> Producer:
        return Producer("shop", options=self.options(keys), send_timeout_seconds=TIMEOUT_SECONDS)

    def push(self, keys: dict[str, str], handler: Callable[..., Any], topic: str = "orders") -> PushConsumer:
        first = ConsumeFrom.FIRST_OFFSET
        return PushConsumer("billing", handler, topics=topic, consume_from=first, options=self.options(keys))

    def pull(self, keys: dict[str, str], topic: str = "orders") -> PullConsumer:
        first = ConsumeFrom.FIRST_OFFSET
        return PullConsumer("stock", topics=topic, consume_from=first, options=self.options(keys))


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest) -> Iterator[AclCluster]:
    """A broker with an admin account and a restricted shop account; its topics exist."""
    require_java()
    version = request.param
    with ExitStack() as stack:
        name_server = stack.enter_context(servers.name_server(version))
        stack.enter_context(acl_broker(version, name_server.address))
        asyncio.run(until_listed(name_server.address))
        cluster = AclCluster(version, name_server.address)
        asyncio.run(_prepare(cluster))
        yield cluster


async def _prepare(cluster: AclCluster) -> None:
    async with cluster.admin(ROOT) as admin:
        for topic in ("orders", "readable", "secret"):
            await admin.topics.create(topic, read_queues=2, write_queues=2)
        for group in ("billing", "stock"):
            await admin.groups.create(group)
        if not cluster.is_4x:
            await admin.users.create(SHOP["access_key"], SHOP["secret_key"])
            await admin.policies.create(f"User:{SHOP['access_key']}", _POLICIES_5X)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not {"orders", "readable", "secret"} <= set(await admin.topics.names()):
                await asyncio.sleep(0.1)


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_user_with_permission_sends_consumes_and_administers(cluster: AclCluster, table: Table) -> None:
    calls: list[tuple[bytes, int]] = []

    async def handle(messages: list[Received]) -> Consumed | None:
        (message,) = messages
        calls.append((message.body, message.reconsume_times))
        return Consumed.later(delay_level=1) if len(calls) == 1 else None

    with table.row(
        Part.OUR_CLIENT, "with credentials: sends, consumes, retries, pulls, pops, administers", cluster.version
    ):
        async with cluster.producer(SHOP) as producer:
            sent = await producer.send(Message("orders", b"one", keys=("key-1",)))
            await producer.send([Message("orders", b"two"), Message("orders", b"three")])
            await producer.send_oneway(Message("orders", b"four"))
        async with TransactionProducer(
            "shop", lambda _: Decision.COMMIT, options=cluster.options(SHOP), send_timeout_seconds=TIMEOUT_SECONDS
        ) as payer:
            await payer.send_in_transaction(Message("orders", b"five"), lambda _: Decision.COMMIT)
        async with cluster.push(SHOP, handle):
            await wait_until(lambda: len(calls) == 6)
        assert sorted(body for body, times in calls if not times) == [b"five", b"four", b"one", b"three", b"two"]
        assert [times for body, times in calls if body == calls[0][0]] == [0, 1]

        async with cluster.pull(SHOP) as pull, asyncio.timeout(DEADLINE_SECONDS):
            assert len({(await anext(pull)).body for _ in range(5)}) == 5

        async with cluster.admin(ROOT) as admin:
            assert (await admin.messages.by_id(sent.message_id, "orders")).body == b"one"
            assert [message.body for message in await admin.messages.by_key("orders", "key-1")] == [b"one"]
            assert (await admin.offsets.progress("billing", "orders")).lag == 0
            assert (await admin.configuration.broker("broker-a"))["brokerName"] == "broker-a"
        if not cluster.is_4x:
            async with SimpleConsumer("stock", topics="orders", options=cluster.options(SHOP)) as simple:
                await simple.ack(await _send_and_pop(cluster, simple))


async def _send_and_pop(cluster: AclCluster, simple: SimpleConsumer) -> Received:
    async with cluster.producer(SHOP) as producer, asyncio.timeout(DEADLINE_SECONDS):
        while True:
            if received := await simple.receive(1, wait_seconds=1):
                return received[0]
            await producer.send(Message("orders", b"to be popped"))


@pytest.mark.parametrize("problem", INVALID_CREDENTIALS)
async def test_invalid_credentials_are_refused(problem: str, cluster: AclCluster, table: Table) -> None:
    keys = INVALID_CREDENTIALS[problem]
    reason = REASONS[problem][0 if cluster.is_4x else 1]
    with table.row(Part.OUR_CLIENT, f"is refused with a clear error: {problem}", cluster.version):
        async with cluster.producer(keys) as producer:
            with pytest.raises(SendFailed, match=reason) as refused:
                await producer.send(Message("orders", b"never"))
            assert isinstance(refused.value.cause, NoPermission)
        for consumer in (cluster.push(keys, lambda _: None), cluster.pull(keys)):
            with pytest.raises(NoPermission, match=reason):
                await consumer.start()
        if not cluster.is_4x:
            simple = SimpleConsumer("stock", topics="orders", options=cluster.options(keys))
            with pytest.raises(NoPermission, match=reason):
                await simple.start()
        async with PullConsumer("stock", options=cluster.options(keys)) as pull:
            with pytest.raises(KeroloxError, match=reason):
                await pull.assign(await pull.queues("orders"))
        async with cluster.admin(keys) as admin:
            with pytest.raises(NoPermission, match=reason):
                await admin.topics.create("made", read_queues=1, write_queues=1)
            with pytest.raises(NoPermission, match=reason):
                await admin.configuration.broker("broker-a")


async def test_a_user_without_permission_is_refused(cluster: AclCluster, table: Table) -> None:
    with table.row(Part.OUR_CLIENT, "is refused with a clear error: missing permission", cluster.version):
        async with cluster.producer(SHOP) as producer:
            for topic in ("secret", "readable"):
                with pytest.raises(SendFailed, match=topic) as refused:
                    await producer.send(Message(topic, b"never"))
                assert isinstance(refused.value.cause, NoPermission)
        with pytest.raises(NoPermission, match="secret"):
            await cluster.push(SHOP, lambda _: None, "secret").start()
        async with cluster.pull(SHOP, "readable") as pull:
            await wait_until(lambda: len(pull.assigned) == 2)
        async with cluster.admin(SHOP) as admin:
            with pytest.raises(NoPermission):
                await admin.topics.create("made", read_queues=1, write_queues=1)


def test_spark_tables_are_written_and_read_with_credentials(cluster: AclCluster, table: Table) -> None:
    rows = pa.RecordBatch.from_pydict({"body": [b"row-%d" % number for number in range(100)]})

    def write(keys: dict[str, str]) -> None:
        given = {"topic": "orders", "producerGroup": "shop", "retryTimeout": "1s", **keys}
        options = WriteOptions.of(cluster.spark_options(given), is_stream=False)
        TableWrite(options, from_arrow_schema(rows.schema)).partition(iter([rows]), "test/0")

    def read(keys: dict[str, str]) -> set[bytes]:
        given = cluster.spark_options({"subscribe": "orders", "groupId": "stock", "retryTimeout": "1s", **keys})
        reader = BatchReader(read_task(read_options(given, is_stream=False), topic_schema()))
        found = [batch for partition in reader.partitions() for batch in reader.read(partition)]
        return {body for batch in found for body in batch.column("body").to_pylist() if body.startswith(b"row-")}

    shop = {"accessKey": SHOP["access_key"], "secretKey": SHOP["secret_key"]}
    wrong = {**shop, "secretKey": "12345678-shop"}
    with table.row(Part.OUR_CLIENT, "Spark writes and reads with credentials", cluster.version):
        write(shop)
        # Java serves stored messages after a short delay.
        deadline = time.monotonic() + DEADLINE_SECONDS
        while read(shop) != set(rows.column("body").to_pylist()):
            assert time.monotonic() < deadline
        for attempt in (write, read):
            with pytest.raises((KeroloxError, WriteFailed), match=r"(?i)check signature failed"):
                attempt(wrong)
