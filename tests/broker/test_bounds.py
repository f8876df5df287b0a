"""How much of what clients say is kept."""

from pathlib import Path

import pytest

from kerolox.broker.bounds import check_name, size_of
from kerolox.broker.errors import InvalidParameter
from kerolox.wire.bodies.clients import SubscriptionData
from tests.broker.brokers import running
from tests.remoting.support import Peer


def test_a_name_has_an_end_and_the_refusal_does_not_repeat_it() -> None:
    check_name("group", None)
    check_name("group", "ü" * 255)

    with pytest.raises(InvalidParameter) as refused:
        check_name("group", "ü" * 256)

    assert "group of 256 characters, at most 255 allowed" in str(refused.value)
    assert "ü" not in str(refused.value)


def test_all_that_a_subscription_carries_counts() -> None:
    plain = size_of([SubscriptionData(topic="orders")])

    for more in (
        SubscriptionData(topic="orders", sub_string="x" * 1000),
        SubscriptionData(topic="orders", filter_class_source="x" * 1000),
        SubscriptionData(topic="orders", expression_type="x" * 1003),
        SubscriptionData(topic="orders", tags_set=["x" * 968]),
        SubscriptionData(topic="o" * 1006),
    ):
        assert size_of([more]) == plain + 1000
    assert size_of([SubscriptionData(topic="orders", code_set=list(range(1000)))]) > plain + 8000
    assert size_of([SubscriptionData(topic="orders")] * 3) == 3 * plain


async def test_a_broker_has_so_many_connections_as_it_is_told(tmp_path: Path) -> None:
    async with running(tmp_path / "store", serverConnectionsMax="1") as broker:
        await broker.send("orders", b"one")

        async with await Peer.to(broker.broker.address) as surplus:
            assert await surplus.rest() == b""

        await broker.send("orders", b"two")


async def test_a_broker_keeps_descriptors_for_its_store(tmp_path: Path) -> None:
    async with running(tmp_path / "store", openFilesMax="300") as few, running(tmp_path / "more") as many:
        spared = [broker.broker.server._crowd.connections_max for broker in (few, many)]

    assert spared[0] - spared[1] == 3600
