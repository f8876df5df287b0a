"""Puts messages into the store, and translates store errors into response codes (putMessage)."""

import functools
from collections.abc import Callable

from kerolox.broker.errors import ServiceNotAvailable
from kerolox.errors import AnswerError, ConfigurationError, SystemBusy, SystemFailure
from kerolox.message import hosts
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.hosts import NO_HOST, Host
from kerolox.message.message import Message
from kerolox.store.delay.delay_levels import DELAY_MARK, diversion, parse_levels
from kerolox.store.errors import (
    NotStorable,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    TimerIllegal,
    TimerRefused,
    WaitedTooLong,
)
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.pending_acks import AckStatus, Sender
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.store import Store
from kerolox.store.timer.divert import ANY_TIMER

_UNAVAILABLE = (
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full, "
    "messages are put to the slave, message store has been shut down"
)


class MessagePut:
    """The store as processors use it."""

    def __init__(self, store: Store, divert_timed: Callable[[Message], Message]) -> None:
        self.store = store
        levels = parse_levels(store.config.message_delay_level)
        diversions = {DELAY_MARK: diversion(levels), ANY_TIMER: divert_timed}
        config = store.config
        self.encoder = MessageEncoder(
            diversions,
            body_size_max=config.max_message_size,
            parts_max=config.batch_parts_max,
            keys_max=config.batch_keys_max,
        )
        # The broker's address as clients know it; part of every offset id.
        self.store_host: Host = NO_HOST

    def draft(self, message: Message) -> Append:
        """Return the append of a message; AnswerError if it cannot be stored."""
        try:
            return self.encoder.encode(message)
        except (TimerIllegal, TimerRefused) as error:
            raise refusal(error) from error

    def submit(self, draft: Append, sender: Sender) -> None:
        """Submit an append; the store calls `sender.stored` or `sender.refused`."""
        try:
            self.store.submit(draft, sender)
        except (NotStorable, StoreBusy) as error:
            raise refusal(error) from error

    async def put(self, message: Message) -> tuple[Appended, AckStatus]:
        """Return where the message was stored and whether it is durable in time; AnswerError if it was refused."""
        return await self.put_draft(self.draft(message))

    async def put_draft(self, draft: Append) -> tuple[Appended, AckStatus]:
        try:
            return await self.store.put(draft)
        except Exception as error:
            raise refusal(error) from error


def refusal(error: Exception) -> AnswerError:
    """Return the response error for an exception of the store."""
    if isinstance(error, AnswerError):
        return error
    if isinstance(error, NotStorable | TimerIllegal | RecordError):
        return MessageIllegal(str(error))
    if isinstance(error, StoreFull | StoreReadOnly):
        return ServiceNotAvailable(f"{_UNAVAILABLE}: {error}")
    if isinstance(error, WaitedTooLong):
        return SystemBusy(
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
            f"period in queue: {error.waited_millis}ms, size of queue: {error.waiting}"
        )
    if isinstance(error, StoreBusy):
        return SystemBusy(f"[OVERLOAD]system busy, start flow control for a while: {error}")
    return SystemFailure(f"{type(error).__name__}: {error}")


@functools.lru_cache(maxsize=4096)
def born_host(remote: str) -> Host:
    """Return the packed address of a client; NOWHERE if it has none, as over a Unix socket."""
    try:
        return hosts.parse(remote)
    except ConfigurationError:
        return NO_HOST
