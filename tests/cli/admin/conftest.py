"""A cluster for each test module, with a topic, a group and some messages."""

import threading
from collections.abc import Iterator

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.client.sync import Consumed, ConsumeFrom, Message, Options, Producer, PushConsumer, Received
from kerolox.testing.plugin import RunningCluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.cli.admin.tools import COUNT, ORDERS, SHOP, Tool
from tests.cli.ups import eventually


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with RunningCluster(tmp_path_factory.mktemp("kerolox")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def options(cluster: RunningCluster) -> Options:
    return Options(namesrv_addr=cluster.namesrv_addr, client_ip="127.0.0.1")


@pytest.fixture(scope="module")
def tool(cluster: RunningCluster) -> Tool:
    return Tool(cluster.namesrv_addr, cluster.broker_addr)


@pytest.fixture(scope="module")
def client(options: Options) -> Iterator[AdminClient]:
    with AdminClient(options=options) as client:
        yield client


@pytest.fixture(scope="module")
def sent(client: AdminClient, options: Options) -> list[str]:
    """The ids of six messages, three in each queue of `orders`, with keys and the tags `even` and `odd`."""
    client.topics.create(ORDERS, read_queues=2, write_queues=2)
    client.groups.create(SHOP)
    ids = []
    with Producer("senders", options=options) as producer:
        for number in range(COUNT):
            tag = "odd" if number % 2 else "even"
            message = Message(ORDERS, b"body %d" % number, tag=tag, keys=[f"key{number}"])
            ids.append(producer.send(message, queue=MessageQueue("broker-a", number % 2, ORDERS)).message_id)
    return ids


@pytest.fixture
def consumer(sent: list[str], options: Options) -> Iterator[PushConsumer]:
    """A member of the group that is online."""
    with PushConsumer(SHOP, _consume, topics=ORDERS, options=options) as consumer:
        yield consumer


def _consume(messages: list[Received]) -> Consumed:
    return Consumed.SUCCESS


@pytest.fixture(scope="module")
def consumed(client: AdminClient, sent: list[str], options: Options) -> None:
    """The group has consumed all messages, and is offline."""
    done = threading.Event()
    missing = set(sent)

    def handle(messages: list[Received]) -> None:
        missing.difference_update(message.message_id for message in messages)
        if not missing:
            done.set()

    with PushConsumer(SHOP, handle, topics=ORDERS, options=options, consume_from=ConsumeFrom.FIRST_OFFSET):
        assert done.wait(30)
    # The broker registers the retry topic, by which tools find the group, after it has answered the heartbeat.
    eventually(lambda: f"{RETRY_PREFIX}{SHOP}" in client.topics.names())
