"""Hooks that change messages before they are sent."""

import dataclasses

import pytest

from kerolox.client import Message, Producer, SendResult
from kerolox.client.hooks import Sending
from kerolox.testing import Cluster
from tests.client.sessions import options


class Stamp:
    """Adds a property to messages, and records how their sends ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, bool, BaseException | None]] = []

    def begin_message(self, message: Message, producer_group: str) -> Message:
        return dataclasses.replace(message, properties={**message.properties, "stamp": producer_group})

    def end_message(self, message: Message, result: SendResult | None, error: BaseException | None) -> None:
        self.ended.append((message.properties["stamp"], result is not None, error))

    def before_send(self, sending: Sending) -> None: ...

    def after_send(self, sending: Sending) -> None: ...


class FailingHook(Stamp):
    def begin_message(self, message: Message, producer_group: str) -> Message:
        raise ValueError("no stamp")

    def end_message(self, message: Message, result: SendResult | None, error: BaseException | None) -> None:
        raise ValueError("no end")


@pytest.mark.parametrize("auto_batch", [False, True])
async def test_the_message_that_the_hook_returned_is_sent(cluster: Cluster, auto_batch: bool) -> None:
    stamp = Stamp()
    message = Message("orders", b"one")
    async with Producer("shop", options=options(cluster), hooks=[stamp], auto_batch=auto_batch) as producer:
        await producer.send(message)
        await producer.send([Message("orders", b"two"), Message("orders", b"three")])
        await producer.send_oneway(Message("orders", b"four"))

    assert message.properties == {}
    assert stamp.ended == [("shop", True, None)] * 3 + [("shop", False, None)]


async def test_a_failing_hook_does_not_prevent_the_send(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    async with Producer("shop", options=options(cluster), hooks=[FailingHook()]) as producer:
        result = await producer.send(Message("orders", b"one"))

    assert result.message_id
    assert "begin_message of hook" in caplog.text
    assert "end_message of hook" in caplog.text


async def test_a_failed_send_calls_end_message_once(cluster: Cluster) -> None:
    stamp = Stamp()
    async with Producer("shop", options=options(cluster), hooks=[stamp]) as producer:
        with pytest.raises(Exception, match="not a valid name"):
            await producer.send(Message("no good", b"one"))

    assert [(name, is_sent, type(error).__name__) for name, is_sent, error in stamp.ended] == [
        ("shop", False, "MessageIllegal")
    ]
