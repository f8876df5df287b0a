"""Acknowledges sends by the sync state set (AutoSwitchHAService, GroupTransferService)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from kerolox.replication.auto_switch.sync_state_set import SyncStateSet
from kerolox.replication.config import ReplicationConfig
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Term:
    """What a broker is master with, in one epoch."""

    members: SyncStateSet
    # The end of the master's own log, of its durable part under SYNC_FLUSH.
    own_end: Callable[[], int]
    # Whether the master has heard of the controller recently enough. It is asked before every acknowledgement, so that
    # a process that was frozen finds out before it acknowledges anything.
    may_acknowledge: Callable[[], bool] = lambda: True


class SyncStateCopies:
    """The copies that sends wait for; given to the store as `StoreHooks.copies`.

    A message is acknowledged when every required member of the sync state set holds it, and only while the set has
    enough members. Before anything is written, sends are refused if it has not, and if this broker is not a master.
    `on_proposal` is called with a set that should be proposed to the controller.
    """

    def __init__(
        self,
        config: ReplicationConfig,
        clock: Clock,
        on_proposal: Callable[[frozenset[int]], None] = lambda members: None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._on_proposal = on_proposal
        self._on_held: Callable[[], None] = lambda: None
        self._term: Term | None = None
        self._held_offset = 0
        # Where the master of this replica has said that the log is confirmed, as far as it is held here.
        self._followed_offset = 0

    # Roles

    def begin(self, term: Term) -> None:
        """Accept sends as a master. The epoch of the term is durable."""
        self._term = term
        self.check()

    def end(self) -> None:
        """Refuse sends from now on, and acknowledge nothing."""
        self._term = None

    @property
    def members(self) -> SyncStateSet | None:
        """The sync state set of the present term; None if this broker is not a master."""
        return None if self._term is None else self._term.members

    # The store's side

    @property
    def timeout_seconds(self) -> float:
        return self._config.slave_timeout / 1000

    @property
    def limits_readers(self) -> bool:
        return True

    def refusal(self) -> str | None:
        term = self._term
        if term is None:
            return "this broker is not the master of its group at present"
        if not term.members.is_large_enough:
            return f"the sync state set has {len(term.members.members)} members, too few (minInSyncReplicas)"
        if not term.may_acknowledge():
            return "this master has not heard of the controller for too long"
        return None

    def are_needed(self) -> bool:
        return True

    def are_available(self, end_offset: int) -> bool:
        return True

    def held_offset(self) -> int:
        if self._term is not None and self.refusal() is None:
            self._held_offset = max(self._held_offset, self.confirm_offset())
        return self._held_offset

    def confirm_offset(self) -> int:
        """Return up to where readers may see the log."""
        if self._term is None:
            return self._followed_offset
        return self._term.members.confirm(self._term.own_end())

    def subscribe(self, on_held: Callable[[], None]) -> None:
        self._on_held = on_held

    # The stream's side

    def follow(self, confirm_offset: int) -> None:
        """As a replica, take the confirm offset of the master, as far as the log is held here."""
        if confirm_offset > self._followed_offset:
            self._followed_offset = confirm_offset
            self._on_held()

    def connected(self, broker_id: int, *, is_learner: bool) -> None:
        if (members := self.members) is not None:
            members.connected(broker_id, self._clock.monotonic(), is_learner=is_learner)

    def reported(self, broker_id: int, end_offset: int, *, sent: tuple[int, float], end: int) -> bool:
        """Take a report; False if it claims more than the master has, or this broker is not a master."""
        members = self.members
        if members is None:
            return False
        if not members.reported(broker_id, end_offset, sent=sent, end=end, now=self._clock.monotonic()):
            return False
        self.check()
        return True

    def disconnected(self, broker_id: int) -> None:
        if (members := self.members) is not None:
            members.disconnected(broker_id)
            self.check()

    def check(self) -> None:
        """Acknowledge what is held, and propose what should change; also called from time to time."""
        members = self.members
        if members is None:
            return
        self._on_held()
        wanted = members.proposal(self._clock.monotonic())
        if wanted is not None:
            self._on_proposal(wanted)
