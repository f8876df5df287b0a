"""The storage interface of the controller: one small value per broker group, changed by compare-and-swap only."""

from typing import NamedTuple, Protocol

from kerolox.errors import KeroloxError


class Stored(NamedTuple):
    """A value, and the version that the next change of it must name."""

    value: bytes
    version: int


# The version of a name without a value.
ABSENT = 0


class VersionConflict(KeroloxError):
    """The value has changed since it was read; nothing was written."""


class StorageUnavailable(KeroloxError):
    """The storage did not answer, or refused; it is unknown whether a change was made."""


class Leadership(NamedTuple):
    """Who leads the controllers that share a storage; no leader while one is being chosen."""

    is_leader: bool
    leader_id: str = ""
    leader_address: str = ""
    # The monotonic time until which nobody else can have become leader.
    until: float = float("inf")


class Storage(Protocol):
    """Safety rests on `replace` alone. Leadership only spares the controllers from working against each other."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def load(self) -> dict[str, Stored]:
        """Return all values by name; StorageUnavailable if they cannot be read."""

    async def read(self, name: str) -> Stored | None:
        """Return the current value; StorageUnavailable if it cannot be read."""

    async def replace(self, name: str, value: bytes, version: int) -> int:
        """Store a value durably if the stored version still is `version`, and return the new version.

        VersionConflict if it is not; StorageUnavailable if it is unknown whether the value was stored.
        """

    async def campaign(self, leader_id: str, address: str) -> Leadership:
        """Become leader if there is none, or stay it; return who is. The result is a hint that may be out of date."""

    async def resign(self) -> None:
        """Stop being leader at once, so that another can become it without waiting."""
