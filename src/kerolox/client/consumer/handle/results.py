"""The results of a handler (ConsumeConcurrentlyStatus, ConsumeOrderlyStatus)."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar


class Outcome(Enum):
    SUCCESS = "SUCCESS"
    LATER = "LATER"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True, slots=True)
class Consumed:
    """The result of a handler: `Consumed.SUCCESS` (or None), `Consumed.LATER`, or `Consumed.later(...)`.

    COMMIT and ROLLBACK are for orderly handlers that commit several calls together (`auto_commit=False`).
    """

    outcome: Outcome = Outcome.SUCCESS
    # The delay level of the retry: 0 lets the broker choose, a negative one sends to the dead letter queue.
    delay_level: int = 0
    # The number of messages, from the first, that succeeded nevertheless.
    succeeded: int = 0
    # Orderly: how long to pause the queue.
    suspend_seconds: float | None = None

    SUCCESS: ClassVar["Consumed"]
    LATER: ClassVar["Consumed"]
    COMMIT: ClassVar["Consumed"]
    ROLLBACK: ClassVar["Consumed"]

    @staticmethod
    def later(*, delay_level: int = 0, succeeded: int = 0, suspend_seconds: float | None = None) -> "Consumed":
        return Consumed(Outcome.LATER, delay_level, succeeded, suspend_seconds)

    @property
    def is_success(self) -> bool:
        return self.outcome is Outcome.SUCCESS or self.outcome is Outcome.COMMIT


Consumed.SUCCESS = Consumed(Outcome.SUCCESS)
Consumed.LATER = Consumed(Outcome.LATER)
Consumed.COMMIT = Consumed(Outcome.COMMIT)
Consumed.ROLLBACK = Consumed(Outcome.ROLLBACK)
