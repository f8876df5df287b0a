"""What users may hang into sending and consuming: told before it is done, and when it is known what became of it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Protocol, runtime_checkable

import msgspec

from kerolox.client.messages import Message, Received, SendResult
from kerolox.message import names
from kerolox.wire.bodies.queues import MessageQueue


class MessageType(IntEnum):
    """By Java's numbers, as traces have them."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class Sending(msgspec.Struct, eq=False):
    """One attempt to send. `result` or `error` is set when it is over; neither, if no answer was wanted."""

    producer_group: str
    # One, or those of a batch; with the namespace left out of their topics.
    messages: Sequence[Message]
    message_ids: Sequence[str]
    broker_name: str
    broker_address: str
    message_type: MessageType
    # Of the bodies as they were given, before compression.
    body_size: int
    started_millis: int
    result: SendResult | None = None
    error: Exception | None = None


class SendHook(Protocol):
    """Not to wait in: it runs between the messages. What it raises is logged, and the message is sent all the same."""

    def before_send(self, sending: Sending) -> None: ...

    def after_send(self, sending: Sending) -> None: ...


@runtime_checkable
class MessageHook(Protocol):
    """A hook that wants to add to a message has this beside the others: told once for each, however often it is tried.

    What it raises is logged, and the message is sent as it was.
    """

    def begin_message(self, message: Message, producer_group: str) -> Message:
        """Returns the message that is sent in place of this one."""

    def end_message(self, message: Message, result: SendResult | None, error: BaseException | None) -> None:
        """Is given what `begin_message` returned, and what became of it; neither, if no answer was wanted."""


class Consuming(msgspec.Struct, eq=False):
    """One call of a handler. `error` is set if it raised."""

    consumer_group: str
    queue: MessageQueue
    messages: Sequence[Received]
    started_millis: int
    # Of all messages together; 0 before it is over.
    seconds: float = 0.0
    is_success: bool = False
    error: Exception | None = None


class ConsumeHook(Protocol):
    """Told on the event loop, and not to wait in. What it raises is logged."""

    def after_consume(self, consuming: Consuming) -> None: ...


@runtime_checkable
class BeforeConsumeHook(Protocol):
    """A hook that wants to know before, too, has this beside the other; both are given the same object.

    It runs where the handler does, right before it: of a plain function in its thread.
    """

    def before_consume(self, consuming: Consuming) -> None: ...


@runtime_checkable
class AroundConsumeHook(Protocol):
    """A hook that wants to be around the handler, where that runs, has this beside the others."""

    def around_consume(self, consuming: Consuming) -> AbstractContextManager[object]: ...


def message_type(message: Message) -> MessageType:
    if names.SHARDING_KEY in message.properties:
        return MessageType.ORDER
    if message.delay_level or message.delay_seconds is not None or message.deliver_at is not None:
        return MessageType.DELAY
    return MessageType.NORMAL


class EndedTransaction(msgspec.Struct, frozen=True):
    """A broker has been told what becomes of a half message."""

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
    """A hook that wants to know of transactions, too, has this beside the others."""

    def after_end(self, ended: EndedTransaction) -> None: ...
