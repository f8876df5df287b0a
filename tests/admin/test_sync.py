"""The blocking admin client."""

from collections.abc import Iterator
from typing import Any

import pytest

from kerolox import admin as aio
from kerolox.admin import sync
from kerolox.admin.sync import AdminClient, PartlyDone, UnknownBroker
from kerolox.client.sync import Message, Options, Producer, WrongState
from kerolox.errors import ConfigurationError, TopicNotFound
from kerolox.testing.plugin import RunningCluster
from tests.client.forks import in_fork
from tests.client.surfaces import differences


def subjects(admin: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(admin).items() if not name.startswith("_") and name != "options"}


def test_both_modules_export_the_same_names() -> None:
    assert sync.__all__ == aio.__all__
    assert [name for name in aio.__all__ if getattr(sync, name) is not getattr(aio, name)] == ["AdminClient"]


def test_both_clients_have_the_same_subjects_and_methods() -> None:
    blocking = subjects(sync.AdminClient(namesrv_addr="127.0.0.1:9876"))
    asynchronous = subjects(aio.AdminClient(namesrv_addr="127.0.0.1:9876"))

    assert list(blocking) == list(asynchronous)
    for name, subject in asynchronous.items():
        # How subjects are made is the client's business.
        found = differences(type(blocking[name]), type(subject))
        assert [complaint for complaint in found if not complaint.startswith("__init__")] == [], name
    assert differences(sync.AdminClient, aio.AdminClient) == []


@pytest.fixture
def options(kerolox_cluster: RunningCluster) -> Options:
    return Options(namesrv_addr=kerolox_cluster.namesrv_addr, client_ip="127.0.0.1")


@pytest.fixture
def admin(options: Options) -> Iterator[AdminClient]:
    with AdminClient(options=options) as admin:
        yield admin


def test_a_topic_is_created_and_read(admin: AdminClient, options: Options) -> None:
    assert admin.topics.create("orders", read_queues=1, write_queues=1) == ["broker-a"]
    with Producer("senders", options=options) as producer:
        ids = [producer.send(Message("orders", b"%d" % number)).message_id for number in range(50)]

    assert [message.message_id for message in admin.messages.read_topic("orders")] == ids
    assert next(admin.messages.read_topic("orders")).body == b"0"
    assert admin.messages.by_id(ids[7], "orders").body == b"7"


def test_errors_are_raised(admin: AdminClient) -> None:
    with pytest.raises(TopicNotFound):
        admin.topics.route("nowhere")
    with pytest.raises(UnknownBroker):
        admin.topics.create("orders", broker="nobody")
    with pytest.raises(ConfigurationError):
        AdminClient(namesrv_addr="127.0.0.1:9876", namespace="mine")
    with pytest.raises(TopicNotFound):
        list(admin.messages.read_topic("nowhere"))
    assert issubclass(PartlyDone, aio.AdminError)


async def test_the_blocking_client_works_inside_a_running_loop(admin: AdminClient) -> None:
    assert [broker.is_master for broker in admin.cluster.brokers()] == [True]


def test_a_fork_needs_its_own_client(admin: AdminClient, options: Options) -> None:
    def child() -> tuple[str, int]:
        try:
            admin.topics.names()
        except WrongState as error:
            with AdminClient(options=options) as own:
                return str(error), len(own.cluster.brokers())
        raise AssertionError

    said, brokers = in_fork(child)

    assert "this Topics was created before a fork" in said
    assert brokers == 1
    assert admin.topics.names() != []
