"""Hooks around the calls of a handler."""

import logging
import threading

import pytest

from kerolox.client import ConsumeFrom, Consuming, PushConsumer, Received
from kerolox.client.consumer.handle.invoke import Handler
from kerolox.testing import Cluster
from tests.client.consumer.consumers import sender
from tests.client.sessions import options, until


class AfterHook:
    def __init__(self) -> None:
        self.after: list[Consuming] = []

    def after_consume(self, consuming: Consuming) -> None:
        self.after.append(consuming)


class BeforeAndAfterHook(AfterHook):
    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.before: list[Consuming] = []
        self._notes = notes

    def before_consume(self, consuming: Consuming) -> None:
        assert consuming.seconds == 0
        self.before.append(consuming)
        self._notes.append(f"hook in {threading.current_thread().name.split(' ')[0]}")


class FailingHook(AfterHook):
    def before_consume(self, consuming: Consuming) -> None:
        raise ValueError("no hook")


def consumer(cluster: Cluster, handler: Handler, *hooks: AfterHook) -> PushConsumer:
    first = ConsumeFrom.FIRST_OFFSET
    return PushConsumer("group", handler, topics="orders", consume_from=first, hooks=hooks, options=options(cluster))


@pytest.mark.parametrize("is_plain", [False, True])
async def test_hooks_get_one_object_before_and_after(is_plain: bool, cluster: Cluster) -> None:
    notes: list[str] = []
    both, after = BeforeAndAfterHook(notes), AfterHook()

    def plain(messages: list[Received]) -> None:
        notes.append("handler")
        raise ValueError("not now")

    async def coroutine(messages: list[Received]) -> None:
        plain(messages)

    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        async with consumer(cluster, plain if is_plain else coroutine, both, after):
            await until(lambda: both.after)

    assert notes[:2] == ["hook in kerolox" if is_plain else "hook in MainThread", "handler"]
    assert both.before[0] is both.after[0]
    assert after.after[0] is both.after[0]
    assert (both.after[0].messages[0].body, both.after[0].is_success) == (b"body", False)
    assert str(both.after[0].error) == "not now"


async def test_an_exception_in_before_consume_does_not_prevent_consuming(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Received] = []
    hook = FailingHook()
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        with caplog.at_level(logging.CRITICAL, "kerolox.client.consumer.handle.hooks"):
            async with consumer(cluster, seen.extend, hook):
                await until(lambda: hook.after)

    assert [message.body for message in seen] == [b"body"]
