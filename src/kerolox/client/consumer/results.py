"""How a handler says what became of the messages it was given."""

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
    """What a handler returns: `Consumed.SUCCESS` (as does None), `Consumed.LATER`, or `Consumed.later(...)`.

    COMMIT and ROLLBACK are for handlers in order that commit several calls together (`auto_commit=False`).
    """

    outcome: Outcome = Outcome.SUCCESS
    # When it comes again: a level of the broker's, 0 to let the broker choose, below 0 for the dead letters.
    delay_level: int = 0
    # How many messages, counted from the first, have succeeded all the same.
    succeeded: int = 0
    # In order: how long the queue rests.
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
