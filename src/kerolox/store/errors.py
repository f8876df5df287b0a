"""Exceptions of the store."""

from kerolox.errors import KeroloxError


class StoreError(KeroloxError):
    """Base class of the store's exceptions."""


class StoreDamaged(StoreError):
    """The files are not a valid store; the message names the file and what is wrong with it."""


class StoreReadOnly(StoreError):
    """The store takes no messages: an fsync has failed, or the store is not open."""


class SyncFailed(StoreReadOnly):
    """An fsync failed, so it is unknown which of the last writes would survive a power cut."""


class StoreFull(StoreError):
    """The disk is full. Reads continue, and writes do once there is room again."""


class NotStorable(StoreError):
    """The record is larger than a commit log file, or its topic cannot be a directory name."""


class NotEnoughReplicas(StoreError):
    """Too few brokers would hold the message, so it is not stored; Java's status is IN_SYNC_REPLICAS_NOT_ENOUGH."""


class NotCopied(StoreError):
    """Bytes of another broker's log do not continue this log, or are not records."""


class TimerIllegal(StoreError):
    """The delivery time is not a number or too far away, or a recall is too late; Java answers MESSAGE_ILLEGAL."""


class TimerRefused(StoreError):
    """Timer messages are disabled, or too many are due in that slot; Java answers SYSTEM_ERROR."""


class StoreBusy(StoreError):
    """Too many bytes are waiting to be stored, or waited for too long; refused messages are not stored."""


class WaitedTooLong(StoreBusy):
    """The log could not be appended to within the sender's timeout. Clients retry, possibly on another broker."""

    def __init__(self, waited_millis: int, waiting: int) -> None:
        super().__init__(f"not appended within {waited_millis} ms, {waiting} messages are waiting")
        self.waited_millis = waited_millis
        self.waiting = waiting
