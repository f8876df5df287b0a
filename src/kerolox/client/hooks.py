"""Hooks that users may pass to producers and consumers, called before and after sending or consuming.

SendHook and ConsumeHook are required. The other protocols are optional methods that a hook may have in addition.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Protocol, runtime_checkable

import msgspec

from kerolox.client.messages import Message, Received, SendResult
from kerolox.message import property_names
from kerolox.wire.bodies.queues import MessageQueue


class MessageType(IntEnum):
    """Java's numbers, as in message traces."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class Sending(msgspec.Struct, eq=False):
    """One attempt to send. `result` or `error` is set when it has ended; neither for a oneway send."""

    producer_group: str
    # One message, or those of a batch. Their topics are without the namespace.
    messages: Sequence[Message]
    message_ids: Sequence[str]
    broker_name: str
    broker_address: str
    message_type: MessageType
    # Total size of the bodies before compression.
    body_size: int
    started_millis: int
    result: SendResult | None = None
    error: Exception | None = None


class SendHook(Protocol):
    """Runs on the event loop, so it must not block. Its exceptions are logged, and the message is sent anyway."""

    def before_send(self, sending: Sending) -> None: ...

    def after_send(self, sending: Sending) -> None: ...


@runtime_checkable
class MessageHook(Protocol):
    """Optional: a hook that may change a message, called once per message however many attempts it takes.

    Its exceptions are logged, and the message is sent unchanged.
    """

    def begin_message(self, message: Message, producer_group: str) -> Message:
        """Return the message to send instead of this one."""

    def end_message(self, message: Message, result: SendResult | None, error: BaseException | None) -> None:
        """Called with the message from `begin_message`, and its result or error; with neither for a oneway send."""


class Consuming(msgspec.Struct, eq=False):
    """One call of a handler. `error` is set if the handler raised."""

    consumer_group: str
    queue: MessageQueue
    messages: Sequence[Received]
    started_millis: int
    # How long the handler took for all messages; 0 until it returns.
    seconds: float = 0.0
    is_success: bool = False
    error: Exception | None = None


class ConsumeHook(Protocol):
    """Runs on the event loop, so it must not block. Its exceptions are logged."""

    def after_consume(self, consuming: Consuming) -> None: ...


@runtime_checkable
class BeforeConsumeHook(Protocol):
    """Optional: called right before the handler, with the object that `after_consume` gets.

    It runs where the handler runs, so for a plain function in its thread.
    """

    def before_consume(self, consuming: Consuming) -> None: ...


@runtime_checkable
class AroundConsumeHook(Protocol):
    """Optional: a context manager in which the handler runs, in the thread of the handler."""

    def around_consume(self, consuming: Consuming) -> AbstractContextManager[object]: ...


def message_type(message: Message) -> MessageType:
    if property_names.SHARDING_KEY in message.properties:
        return MessageType.ORDER
    if message.delay_level or message.delay_seconds is not None or message.deliver_at is not None:
        return MessageType.DELAY
    return MessageType.NORMAL


class EndedTransaction(msgspec.Struct, frozen=True):
    """The decision on a half message, which has been sent to its broker."""

    producer_group: str
    # Without the namespace.
    topic: str
    tags: str | None
    keys: Sequence[str]
    message_id: str
    transaction_id: str
    broker_address: str
    # Java's names: COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW.
    state: str
    is_from_check: bool
    ended_millis: int


@runtime_checkable
class EndHook(Protocol):
    """Optional: called when the decision of a transaction has been sent."""

    def after_end(self, ended: EndedTransaction) -> None: ...
