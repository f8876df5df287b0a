"""How messages reach the store, and what senders are told when they do not."""

import functools
from collections.abc import Callable

from kerolox.broker.errors import ServiceNotAvailable
from kerolox.errors import AnswerError, ConfigurationError, SystemBusy, SystemFailure
from kerolox.message import hosts
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.hosts import NOWHERE, Host
from kerolox.message.message import Message
from kerolox.store.delay.delays import DELAY_MARK, diversion, parse_levels
from kerolox.store.drafts import Drafts
from kerolox.store.errors import (
    NotStorable,
    StoreBusy,
    StoreFull,
    StoreReadOnly,
    TimerIllegal,
    TimerRefused,
    WaitedTooLong,
)
from kerolox.store.log.commit_log import Appended, Draft
from kerolox.store.log.promises import Sender
from kerolox.store.store import Store
from kerolox.store.timer.divert import ANY_TIMER

_UNAVAILABLE = (
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full, "
    "messages are put to the slave, message store has been shut down"
)


class Storing:
    """The store as processors see it: messages in, the protocol's codes out."""

    def __init__(self, store: Store, divert_timed: Callable[[Message], Message]) -> None:
        self.store = store
        levels = parse_levels(store.config.message_delay_level)
        diversions = {DELAY_MARK: diversion(levels), ANY_TIMER: divert_timed}
        config = store.config
        self.drafts = Drafts(
            diversions,
            body_size_max=config.max_message_size,
            parts_max=config.batch_parts_max,
            keys_max=config.batch_keys_max,
        )
        # What clients know this broker by; part of every offset id.
        self.store_host: Host = NOWHERE

    def draft(self, message: Message) -> Draft:
        """Returns what is stored of a message; AnswerError if nothing can be."""
        try:
            return self.drafts.one(message)
        except (TimerIllegal, TimerRefused) as error:
            raise refusal(error) from error

    def submit(self, draft: Draft, sender: Sender) -> None:
        """Has a draft stored; the sender is told the place, or why there is none."""
        try:
            self.store.submit(draft, sender)
        except (NotStorable, StoreBusy) as error:
            raise refusal(error) from error

    async def put(self, message: Message) -> tuple[Appended, bool]:
        """Returns where the message came to lie, and whether it is as durable as promised; AnswerError if nowhere."""
        return await self.put_draft(self.draft(message))

    async def put_draft(self, draft: Draft) -> tuple[Appended, bool]:
        try:
            return await self.store.put(draft)
        except Exception as error:
            raise refusal(error) from error


def refusal(error: Exception) -> AnswerError:
    """Returns what a sender is told."""
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
    """Returns the packed address of a client; nowhere if it has none, as over a Unix socket."""
    try:
        return hosts.parse(remote)
    except ConfigurationError:
        return NOWHERE
