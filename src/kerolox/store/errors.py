"""What can be wrong with a store."""

from kerolox.errors import KeroloxError


class StoreError(KeroloxError):
    """The root of what the store raises."""


class StoreDamaged(StoreError):
    """Files that cannot be a store of ours or of RocketMQ's; the message says which, and what is wrong with it."""


class StoreReadOnly(StoreError):
    """Nothing more is accepted: a sync has failed, or the store was opened for reading only."""


class SyncFailed(StoreReadOnly):
    """It is not known which of the last writes would survive a power cut."""


class StoreFull(StoreError):
    """The disk has no room; reading goes on, and writing again when there is."""


class NotStorable(StoreError):
    """Too large for a file of the commit log, or of a topic that cannot be the name of a directory."""


class OffsetExpired(StoreError):
    """What was at this offset existed and is gone."""


class TimerIllegal(StoreError):
    """A time that is no number or too far away, or a recall that comes too late; Java answers MESSAGE_ILLEGAL."""


class TimerRefused(StoreError):
    """Timer messages are switched off, or too many are due at that moment; Java answers SYSTEM_ERROR."""


class StoreBusy(StoreError):
    """Too much waits already, or has waited for too long; nothing is stored of what was refused."""


class WaitedTooLong(StoreBusy):
    """Nothing could be appended for so long that the sender is given up; it may try again, or try another."""

    def __init__(self, waited_millis: int, waiting: int) -> None:
        super().__init__(f"could not be appended for {waited_millis} ms, {waiting} are waiting")
        self.waited_millis = waited_millis
        self.waiting = waiting
