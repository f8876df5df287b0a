"""The broker groups of a controller: a cache of the storage, and the one way to change it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from kerolox.controller.errors import InvalidRequest
from kerolox.controller.state import BrokerGroup, Decision
from kerolox.controller.storage.storage import ABSENT, Storage, StorageUnavailable, Stored, VersionConflict
from kerolox.errors import ConfigurationError, SystemFailure
from kerolox.wire.header import Header

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)


class _Known(NamedTuple):
    group: BrokerGroup
    version: int


class BrokerGroups:
    """Groups by broker name. A change is decided from a stored value, and stored only if that is still the value."""

    def __init__(self, storage: Storage, *, groups_max: int, attempts_max: Callable[[], int]) -> None:
        self._storage = storage
        self._groups_max = groups_max
        self._attempts_max = attempts_max
        self._known: dict[str, _Known] = {}
        # Names whose stored value may differ from the cached one.
        self._stale: set[str] = set()
        # One change of a group at a time: concurrent ones would only fail the comparison.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self) -> None:
        """Read all groups; StorageUnavailable if that fails, and the cache stays as it was."""
        stored = await self._storage.load()
        self._known = {name: _known(name, it) for name, it in stored.items()}
        self._stale.clear()

    @property
    def all(self) -> Mapping[str, BrokerGroup]:
        return {name: known.group for name, known in self._known.items()}

    async def get(self, name: str) -> BrokerGroup | None:
        if name in self._stale:
            async with self._lock(name):
                await self._refresh(name)
        known = self._known.get(name)
        return None if known is None else known.group

    async def change(self, name: str, decide: Callable[[BrokerGroup | None], Decision[A]]) -> Decision[A]:
        """Decide, store the group if it has changed, and return the decision.

        If another controller has changed the group meanwhile, decide again from its value. SystemFailure if it remains
        unknown whether the group was stored.
        """
        async with self._lock(name):
            for _ in range(self._attempts_max()):
                if name in self._stale:
                    await self._refresh(name)
                known = self._known.get(name)
                before = None if known is None else known.group
                decision = decide(before)
                if decision.group is before or decision.group is None:
                    return decision
                if known is None and len(self._known) >= self._groups_max:
                    raise InvalidRequest(
                        f"there are {len(self._known)} broker groups already, at most {self._groups_max} are allowed "
                        "(brokerGroupNumsMax)"
                    )
                if await self._store(name, decision.group, ABSENT if known is None else known.version):
                    return decision
        raise SystemFailure(f"broker group {name!r} is being changed by another controller; try again")

    async def _store(self, name: str, group: BrokerGroup, version: int) -> bool:
        """Return whether the group was stored; False if another controller was faster."""
        # Until there is a result the cached value is in doubt, also if this task is cancelled.
        self._stale.add(name)
        try:
            version = await self._storage.replace(name, msgspec.json.encode(group), version)
        except VersionConflict:
            return False
        except StorageUnavailable as error:
            raise SystemFailure(f"it is unknown whether the change was stored: {error}") from error
        self._known[name] = _Known(group, version)
        self._stale.discard(name)
        return True

    async def _refresh(self, name: str) -> None:
        try:
            stored = await self._storage.read(name)
        except StorageUnavailable as error:
            raise SystemFailure(f"broker group {name!r} cannot be read: {error}") from error
        if stored is None:
            self._known.pop(name, None)
        else:
            self._known[name] = _known(name, stored)
        self._stale.discard(name)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())


def _known(name: str, stored: Stored) -> _Known:
    try:
        return _Known(msgspec.json.decode(stored.value, type=BrokerGroup), stored.version)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"the stored state of broker group {name!r} cannot be read: {error}") from error
