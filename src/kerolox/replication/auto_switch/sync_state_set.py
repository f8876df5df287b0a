"""The sync state set of a master: who must hold a message before it is acknowledged (AutoSwitchHAService).

The controller decides who is a member. The master proposes changes, and obeys two rules in between:

- A message is acknowledged only when every member of the agreed set and of a proposed one holds it. The answer of the
  controller may be lost: whichever of the two sets it has stored, each of its members can be elected and has
  everything that was acknowledged.
- A member leaves the set only when the controller has agreed. RocketMQ 5.4 and 5.5 drop it as soon as its connection
  is lost; a master that is cut off together with one replica then acknowledges what the controller's next master lacks.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetLimits:
    """When replicas enter and leave the set."""

    # A master with fewer members refuses sends (minInSyncReplicas).
    members_min: int = 2
    # A member that has not caught up for so long is proposed to leave (haMaxTimeSlaveNotCatchup).
    lag_seconds_max: float = 15.0


@dataclass(slots=True)
class Progress:
    """How far a replica is, as it has reported to this master in this epoch."""

    end_offset: int
    # The last time at which it had everything that had been written when data was last sent to it.
    caught_up_at: float
    # Whether its last report had that, too.
    is_caught_up: bool = False
    is_learner: bool = False
    is_connected: bool = True


class SyncStateSet:
    """The set as a master of one epoch sees it. A new master begins with a new object."""

    def __init__(self, broker_id: int, limits: SetLimits, *, epoch_start: int, now: float) -> None:
        self._broker_id = broker_id
        self._limits = limits
        # Where the log of this epoch begins: a replica that has less has not seen all of the epoch before.
        self._epoch_start = epoch_start
        self._began = now
        self.members = frozenset({broker_id})
        # The number of the set, which the controller raises with each change.
        self.version = 0
        # The proposed set, until it is known whether the controller has stored it.
        self.proposed: frozenset[int] | None = None
        self._replicas: dict[int, Progress] = {}
        # Everything before it is held by all required members; it never goes back.
        self.confirm_offset = epoch_start

    @property
    def required(self) -> frozenset[int]:
        """The brokers that must hold a message before it is acknowledged."""
        return self.members | (self.proposed or frozenset())

    @property
    def is_large_enough(self) -> bool:
        """Whether sends are accepted."""
        return len(self.members) >= self._limits.members_min

    # Progress of replicas

    def connected(self, broker_id: int, now: float, *, is_learner: bool = False) -> None:
        """Note the handshake of a replica. It holds nothing for certain until its first report."""
        self._replicas[broker_id] = Progress(0, now, is_learner=is_learner)

    def disconnected(self, broker_id: int) -> None:
        """Note a lost connection. The replica keeps what it has reported, and stays required if it is a member."""
        if broker_id in self._replicas:
            self._replicas[broker_id].is_connected = False

    def reported(self, broker_id: int, end_offset: int, *, sent: tuple[int, float], end: int, now: float) -> bool:
        """Note a report; False, and nothing is noted, if it claims more than the `end` of the master's log.

        `sent` is the end of the master's log when data was last sent to this replica, and the time of that.
        """
        if not 0 <= end_offset <= end or broker_id not in self._replicas:
            return False
        replica = self._replicas[broker_id]
        replica.end_offset = end_offset
        sent_end, sent_at = sent
        replica.is_caught_up = end_offset >= sent_end
        if end_offset == end:
            replica.caught_up_at = now
        elif replica.is_caught_up:
            replica.caught_up_at = max(replica.caught_up_at, sent_at)
        return True

    def confirm(self, own_end: int) -> int:
        """Return the confirm offset, moved as far as the required members allow.

        `own_end` is the end of the master's log, of its durable part under SYNC_FLUSH.
        """
        ends = [own_end if member == self._broker_id else self._end_of(member) for member in self.required]
        self.confirm_offset = max(self.confirm_offset, min(ends))
        return self.confirm_offset

    def _end_of(self, broker_id: int) -> int:
        replica = self._replicas.get(broker_id)
        return 0 if replica is None else replica.end_offset

    # Changes

    def proposal(self, now: float) -> frozenset[int] | None:
        """Return the set to propose to the controller; None if there is nothing to change, or a proposal is open."""
        if self.proposed is not None:
            return None
        entering = {broker_id for broker_id, replica in self._replicas.items() if self._may_enter(replica)}
        leaving = {member for member in self.members - {self._broker_id} if self._has_fallen_behind(member, now)}
        wanted = (self.members | entering) - leaving
        return wanted if wanted != self.members else None

    def _may_enter(self, replica: Progress) -> bool:
        """Whether a replica holds everything that may have been acknowledged, and is still connected."""
        is_complete = replica.end_offset >= max(self.confirm_offset, self._epoch_start)
        return is_complete and replica.is_caught_up and replica.is_connected and not replica.is_learner

    def _has_fallen_behind(self, member: int, now: float) -> bool:
        replica = self._replicas.get(member)
        if replica is not None and not replica.is_connected:
            return True
        since = self._began if replica is None else replica.caught_up_at
        return now - since > self._limits.lag_seconds_max

    def propose(self, members: frozenset[int]) -> None:
        """Require the members of a set that is about to be sent to the controller, too."""
        assert self._broker_id in members
        assert self.proposed is None
        self.proposed = members

    def decided(self, members: frozenset[int], version: int) -> None:
        """Take the set that the controller has; a set with a lower version is outdated and changes nothing.

        It ends a proposal, whether the controller has accepted or refused it. A proposal without an answer stays open
        until the controller has told its set.
        """
        if version < self.version:
            return
        self.members, self.version = members | {self._broker_id}, version
        self.proposed = None
