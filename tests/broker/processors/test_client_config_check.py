"""CHECK_CLIENT_CONFIG over a real socket."""

from pathlib import Path

import pytest

from kerolox.broker.errors import SubscriptionParseFailed
from kerolox.errors import SystemFailure
from kerolox.wire.bodies.clients import CheckClientRequest, SubscriptionData
from kerolox.wire.headers.clients import CheckClientConfig
from tests.broker.brokers import BrokerFixture, running


async def check(broker: BrokerFixture, text: str, kind: str | None) -> None:
    subscription = SubscriptionData(topic="orders", sub_string=text, expression_type=kind)
    await broker.call(CheckClientConfig(), CheckClientRequest(subscription, "c", "group").encode())


async def test_a_supported_filter_is_accepted(tmp_path: Path) -> None:
    async with running(tmp_path / "store", enablePropertyFilter="true") as broker:
        await check(broker, "a > 5 AND b IS NOT NULL", "SQL92")
        await check(broker, "a || b", "TAG")
        await check(broker, "anything >", None)
        await broker.call(CheckClientConfig())

        with pytest.raises(SubscriptionParseFailed, match=r"Invalid MessageSelector\. line 1, column 4: found the end"):
            await check(broker, "a >", "SQL92")
        with pytest.raises(SubscriptionParseFailed, match="type 'XPATH' is not supported"):
            await check(broker, "a > 5", "XPATH")


async def test_expressions_are_refused_unless_enabled(broker: BrokerFixture) -> None:
    await check(broker, "a || b", "TAG")

    with pytest.raises(SystemFailure, match="The broker does not support consumer to filter message by SQL92"):
        await check(broker, "a > 5", "SQL92")
