"""Decides when enough slaves hold a message (GroupTransferService)."""

from collections.abc import Callable, Mapping

from kerolox.replication.config import ReplicationConfig


class ReplicaAcks:
    """The copies that sends of a SYNC_MASTER wait for; given to the store as `StoreHooks.copies`.

    `is_sync_master` is asked for every group of sends, because a broker may change its role.
    """

    def __init__(self, config: ReplicationConfig, is_sync_master: Callable[[], bool] = lambda: True) -> None:
        self._config = config
        self._is_sync_master = is_sync_master
        # Offset up to which each slave holds the log, the furthest first.
        self._offsets: list[int] = []
        self._on_held: Callable[[], None] = lambda: None

    @property
    def timeout_seconds(self) -> float:
        return self._config.slave_timeout / 1000

    def are_needed(self) -> bool:
        return self._is_sync_master() and self._slaves_needed() > 0

    def are_available(self, end_offset: int) -> bool:
        return self.in_sync_count(end_offset) >= self._slaves_needed(end_offset)

    def in_sync_count(self, end_offset: int) -> int:
        """Return how many slaves are less than haMaxGapNotInSync behind the end of the log."""
        return sum(end_offset - offset < self._config.ha_max_gap_not_in_sync for offset in self._offsets)

    def held_offset(self) -> int:
        # At least one: a sender that waits was told to wait, even if fewer slaves are needed since.
        needed = max(1, self._slaves_needed())
        return self._offsets[needed - 1] if needed <= len(self._offsets) else 0

    @property
    def limits_readers(self) -> bool:
        return False

    def confirm_offset(self) -> int:
        return self.held_offset()

    def refusal(self) -> str | None:
        return None

    def subscribe(self, on_held: Callable[[], None]) -> None:
        self._on_held = on_held

    def update(self, reported: Mapping[str, int]) -> None:
        """Take note of how far each slave holds the log; slaves that are left out are gone."""
        self._offsets = sorted(reported.values(), reverse=True)
        self._on_held()

    def _slaves_needed(self, end_offset: int | None = None) -> int:
        config = self._config
        copies = config.in_sync_replicas
        if config.enable_auto_in_sync_replicas:
            end_offset = max(self._offsets, default=0) if end_offset is None else end_offset
            copies = max(config.min_in_sync_replicas, min(copies, 1 + self.in_sync_count(end_offset)))
        return copies - 1
