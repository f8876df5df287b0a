"""Limits on what clients may store in the broker."""

from pathlib import Path

import pytest

from kerolox.broker.client_limits import check_name, subscriptions_size
from kerolox.broker.errors import InvalidParameter
from kerolox.wire.bodies.clients import SubscriptionData
from tests.broker.brokers import running
from tests.remoting.support import Peer


def test_long_names_are_rejected_and_not_repeated_in_the_message() -> None:
    check_name("group", None)
    check_name("group", "ü" * 255)

    with pytest.raises(InvalidParameter) as raised:
        check_name("group", "ü" * 256)

    assert "group of 256 characters, at most 255 allowed" in str(raised.value)
    assert "ü" not in str(raised.value)


def test_all_fields_of_a_subscription_count() -> None:
    plain = subscriptions_size([SubscriptionData(topic="orders")])

    for more in (
        SubscriptionData(topic="orders", sub_string="x" * 1000),
        SubscriptionData(topic="orders", filter_class_source="x" * 1000),
        SubscriptionData(topic="orders", expression_type="x" * 1003),
        SubscriptionData(topic="orders", tags_set=["x" * 968]),
        SubscriptionData(topic="o" * 1006),
    ):
        assert subscriptions_size([more]) == plain + 1000
    assert subscriptions_size([SubscriptionData(topic="orders", code_set=list(range(1000)))]) > plain + 8000
    assert subscriptions_size([SubscriptionData(topic="orders")] * 3) == 3 * plain


async def test_the_number_of_connections_is_limited_by_server_connections_max(tmp_path: Path) -> None:
    async with running(tmp_path / "store", serverConnectionsMax="1") as broker:
        await broker.send("orders", b"one")

        async with await Peer.to(broker.broker.address) as surplus:
            assert await surplus.rest() == b""

        await broker.send("orders", b"two")


async def test_file_descriptors_of_the_store_are_not_available_for_connections(tmp_path: Path) -> None:
    async with running(tmp_path / "store", openFilesMax="300") as few, running(tmp_path / "more") as many:
        connection_limits = [broker.broker.server._connection_limit.connections_max for broker in (few, many)]

    assert connection_limits[0] - connection_limits[1] == 3600
