"""A slave's copy of what its master's log does not contain: topics, groups, offsets, modes (SlaveSynchronize)."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.assignment import RequestModes
from kerolox.broker.replication.offset_copy import OffsetCopy
from kerolox.errors import KeroloxError, ProtocolError, RequestCodeNotSupported
from kerolox.remoting.client import Client
from kerolox.runtime.service import Service
from kerolox.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from kerolox.wire.bodies.offsets import ConsumerOffsetTable
from kerolox.wire.bodies.pop import MessageRequestModes
from kerolox.wire.bodies.replication import MetadataChanges, MetadataQuery
from kerolox.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from kerolox.wire.headers.broker import GetAllSubscriptionGroupConfig, GetAllTopicConfig
from kerolox.wire.headers.clients import GetAllMessageRequestMode
from kerolox.wire.headers.offsets import GetAllConsumerOffset, GetAllDelayOffset
from kerolox.wire.headers.replication import GetMetadataChanges, GetTimerCheckPoint, GetTimerMetrics

log = logging.getLogger(__name__)

# A master of ours is asked for changes this often, so that metadata is less than a second old.
_CHANGES_SECONDS = 0.5
# A Java master is asked for whole tables this often, as by slaves of 4.9. Those of 5.x ask every minute.
_ROUND_SECONDS = 10.0
_TIMEOUT_SECONDS = 3.0
_PAGE_TIMEOUT_SECONDS = 30.0
_PAGE_SIZE = 2000
# After reading the whole table of offsets, that many times as long passes before it is read again: with a million
# offsets it takes both brokers seconds.
_PAUSE_RATIO = 20
# How often a table is read from its first page again, because it has changed between two pages.
_RESTARTS_MAX = 5


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Offsets that may be used when the log of this broker is as long as the master's was."""

    log_end_offset: int
    offsets: Mapping[str, Mapping[int, int]]
    version: DataVersion
    is_full: bool
    pop_position: int | None
    delay_offsets: Mapping[int, int]


@dataclass(slots=True)
class _Seen:
    """What is known of the current master."""

    master_start: str = ""
    modes_version: str = ""
    timer_version: str = ""
    deletions_version: str = ""
    # Monotonic time of the next copy of the timer's counts, or of whole tables.
    next_round: float = 0.0
    # Whether it is a master of ours; None if unknown.
    has_changes: bool | None = None
    waiting: _Waiting | None = None


class MetadataCopy(Service):
    """Follows the tables of the master that `set_master` names; does nothing while there is none.

    A failed step is logged once, and the next step still runs. Offsets are applied only when the log of this broker has
    the messages that the master's log had: a group must never be ahead of the log, nor a delayed message be counted as
    delivered whose delivery was not copied.
    """

    def __init__(
        self, parts: BrokerParts, modes: RequestModes, client: Client, *, on_topics: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._modes = modes
        self._client = client
        self._on_topics = on_topics
        self._clock = parts.clock
        self._offset_copy = OffsetCopy(parts.offsets)
        self._master: str | None = None
        self._seen = _Seen()
        # Step → reason of its last failure.
        self._failures: dict[str, str] = {}
        # Not before this time is the whole table of offsets read again.
        self._next_table = 0.0
        self._has_delay_progress = False
        self._next_delay_save = 0.0
        # Monotonic time of the last copy that was complete; None if there was none.
        self.copied_at: float | None = None

    @property
    def master(self) -> str | None:
        return self._master

    def set_master(self, address: str | None) -> None:
        """Copy from this broker from now on; from none if it is None or this broker itself."""
        if address == self._parts.addresses.address:
            address = None
        if address != self._master:
            log.info("metadata is copied from %s", address or "nowhere, no master is known")
            self._master, self._seen = address, _Seen()
            self._failures.clear()

    # Lifecycle

    async def open(self) -> None:
        self._parts.delivery.offsets.load()

    async def run(self) -> None:
        while True:
            await self.copy()
            await self._clock.sleep(_CHANGES_SECONDS)

    async def close(self) -> None:
        await self._save_delay_offsets()

    # Copying

    async def copy(self) -> None:
        """Copy what has changed on the master since the last call."""
        seen = self._seen
        if self._master is None:
            return
        self._apply_waiting()
        if seen.has_changes is not False:
            await self._step("changes", self._copy_changes)
            self._note_complete()
        if seen.has_changes is False and self._clock.monotonic() >= seen.next_round:
            await self._copy_everything()
            seen.next_round = self._clock.monotonic() + _ROUND_SECONDS
            self._note_complete()
        if self._clock.monotonic() >= self._next_delay_save:
            await self._save_delay_offsets()

    def _note_complete(self) -> None:
        if not self._failures:
            self.copied_at = self._clock.monotonic()

    async def _step(self, name: str, copy: Callable[[str], Awaitable[None]]) -> bool:
        """Run a step; return whether it succeeded. Whatever the master answers must not end the service."""
        address = self._master
        if address is None:
            return False
        try:
            await copy(address)
        except Exception as error:
            is_expected = isinstance(error, KeroloxError | OSError | ValueError)
            is_new = self._failures.get(name) != str(error)
            self._failures[name] = str(error)
            log.log(
                logging.WARNING if is_new else logging.DEBUG,
                "%s of master %s could not be copied, retrying: %s",
                name,
                address,
                error,
                exc_info=None if is_expected else error,
            )
            return False
        if self._failures.pop(name, None) is not None:
            log.info("%s of master %s are copied again", name, address)
        return True

    async def _copy_changes(self, address: str) -> None:
        """Ask a master of ours what has changed, and copy it."""
        seen = self._seen
        query = MetadataQuery(
            master_start=seen.master_start,
            offsets_version=self._offset_copy.version if seen.waiting is None else None,
            deletions_version=seen.deletions_version,
        )
        try:
            changes = await self._ask_changes(address, query)
        except RequestCodeNotSupported:
            seen.has_changes = False
            return
        if seen is not self._seen:
            return
        if changes.master_start != seen.master_start:
            seen = self._seen = _Seen(changes.master_start)
        seen.has_changes = True
        await self._copy_changed_tables(changes, seen)
        if query.offsets_version is not None:
            waiting = await self._changed_offsets(address, changes)
            if seen is self._seen and waiting is not None:
                seen.waiting = waiting
                self._apply_waiting()

    async def _ask_changes(self, address: str, query: MetadataQuery) -> MetadataChanges:
        reply = await self._client.call(address, GetMetadataChanges(), query.encode(), timeout_seconds=_TIMEOUT_SECONDS)
        return MetadataChanges.decode(reply.body)

    async def _changed_offsets(self, address: str, changes: MetadataChanges) -> _Waiting | None:
        """Return the changed offsets, or all; None if the whole table is large and was read a short time ago."""
        offsets, version, end = changes.offsets, changes.offsets_version, changes.log_end_offset
        if offsets is None:
            began = self._clock.monotonic()
            if began < self._next_table:
                return None
            table = await self._ask_offsets(address)
            offsets, version = table.offset_table, table.data_version
            # Consumers may have committed offsets of messages that were stored since the master answered.
            end = (await self._ask_changes(address, MetadataQuery())).log_end_offset
            self._next_table = self._clock.monotonic() + (self._clock.monotonic() - began) * _PAUSE_RATIO
        is_full = changes.offsets is None
        return _Waiting(end, offsets, version, is_full, changes.pop_position, changes.delay_offsets)

    async def _copy_changed_tables(self, changes: MetadataChanges, seen: _Seen) -> None:
        parts = self._parts
        if changes.deleted_topics is not None and await self._step(
            "deleted topics", lambda _: self._delete_topics(changes.deleted_topics or {})
        ):
            seen.deletions_version = changes.deletions_version
        if changes.topics_version != parts.topics.data_version:
            await self._step("topics", self._copy_topics)
        if changes.groups_version != parts.groups.data_version:
            await self._step("groups", self._copy_groups)
        if changes.modes_version != seen.modes_version and await self._step("request modes", self._copy_modes):
            seen.modes_version = changes.modes_version
        if changes.timer_version != seen.timer_version:
            if await self._step("timer checkpoint", self._copy_timer_checkpoint):
                seen.timer_version = changes.timer_version
            if self._clock.monotonic() >= seen.next_round:
                seen.next_round = self._clock.monotonic() + _ROUND_SECONDS
                await self._step("timer metrics", self._copy_timer_metrics)

    def _apply_waiting(self) -> None:
        """Apply offsets for which the log had to catch up."""
        waiting = self._seen.waiting
        if waiting is None or self._store.log.end_offset < waiting.log_end_offset:
            return
        self._seen.waiting = None
        self._offset_copy.apply(
            waiting.offsets, waiting.version, is_full=waiting.is_full, pop_position=waiting.pop_position
        )
        if self._parts.delivery.offsets.follow(waiting.delay_offsets):
            self._has_delay_progress = True

    async def _copy_everything(self) -> None:
        """Copy whole tables, from a master that does not tell what has changed."""
        steps = {
            "topics": self._copy_topics,
            "consumer offsets": self._copy_offsets,
            "delay offsets": self._copy_delay_offsets,
            "groups": self._copy_groups,
            "request modes": self._if_supported(self._copy_modes),
            "timer checkpoint": self._if_supported(self._copy_timer_checkpoint),
            "timer metrics": self._if_supported(self._copy_timer_metrics),
        }
        for name, copy in steps.items():
            await self._step(name, copy)

    def _if_supported(self, copy: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        """Return the step for a table that masters of 4.9 do not have."""

        async def copy_if_supported(address: str) -> None:
            try:
                await copy(address)
            except RequestCodeNotSupported:
                log.debug("master %s is of 4.9", address)

        return copy_if_supported

    # Tables

    async def _copy_topics(self, address: str) -> None:
        topics: dict[str, TopicConfig] = {}

        async def page(first: int, version: str) -> tuple[DataVersion, int, int | None]:
            request = GetAllTopicConfig(topic_seq=first, data_version=version, max_topic_num=_PAGE_SIZE)
            reply = await self._client.call(address, request, timeout_seconds=_PAGE_TIMEOUT_SECONDS)
            table = TopicConfigTable.decode(reply.body)
            topics.update(table.topic_config_table)
            # Masters of 4.9 send no header.
            total = None if reply.header is None else reply.header.total_topic_num
            return table.data_version, len(table.topic_config_table), total

        version = await _read_pages(page, topics.clear)
        if self._master == address and version != self._parts.topics.data_version:
            self._parts.topics.replace_all(TopicConfigTable(version, topics))
            await self._parts.topics.file.save_early()
            self._on_topics()

    async def _copy_groups(self, address: str) -> None:
        groups: dict[str, SubscriptionGroupConfig] = {}
        forbidden: dict[str, dict[str, int]] = {}

        async def page(first: int, version: str) -> tuple[DataVersion, int, int | None]:
            request = GetAllSubscriptionGroupConfig(group_seq=first, data_version=version, max_group_num=_PAGE_SIZE)
            reply = await self._client.call(address, request, timeout_seconds=_PAGE_TIMEOUT_SECONDS)
            table = SubscriptionGroupTable.decode(reply.body)
            groups.update(table.subscription_group_table)
            forbidden.update(table.forbidden_table or {})
            total = None if reply.header is None else reply.header.total_group_num
            return table.data_version, len(table.subscription_group_table), total

        version = await _read_pages(page, groups.clear)
        if self._master == address and version != self._parts.groups.data_version:
            self._parts.groups.replace_all(SubscriptionGroupTable(version, forbidden, groups))
            await self._parts.groups.file.save_early()

    async def _copy_offsets(self, address: str) -> None:
        table = await self._ask_offsets(address)
        if self._master == address:
            self._offset_copy.apply(table.offset_table, table.data_version, is_full=True)

    async def _ask_offsets(self, address: str) -> ConsumerOffsetTable:
        reply = await self._client.call(address, GetAllConsumerOffset(), timeout_seconds=_PAGE_TIMEOUT_SECONDS)
        return ConsumerOffsetTable.decode(reply.body)

    async def _copy_delay_offsets(self, address: str) -> None:
        reply = await self._client.call(address, GetAllDelayOffset(), timeout_seconds=_TIMEOUT_SECONDS)
        if self._master == address:
            self._parts.delivery.offsets.replace(reply.body)
            self._has_delay_progress = True

    async def _copy_modes(self, address: str) -> None:
        reply = await self._client.call(address, GetAllMessageRequestMode(), timeout_seconds=_TIMEOUT_SECONDS)
        if self._master == address:
            self._modes.take_over(MessageRequestModes.decode(reply.body))

    async def _copy_timer_checkpoint(self, address: str) -> None:
        if self._store.config.timer_wheel_enable:
            reply = await self._client.call(address, GetTimerCheckPoint(), timeout_seconds=_TIMEOUT_SECONDS)
            # In memory only: a broker that becomes a master finds undelivered messages, and what was delivered, in the
            # log.
            self._parts.timer.checkpoint.follow(reply.body)

    async def _copy_timer_metrics(self, address: str) -> None:
        if self._store.config.timer_wheel_enable:
            reply = await self._client.call(address, GetTimerMetrics(), timeout_seconds=_TIMEOUT_SECONDS)
            self._parts.timer.metrics.follow(reply.body)

    async def _delete_topics(self, deletions: dict[str, int]) -> None:
        await self._store.topic_cleanup.repeat(deletions)

    async def _save_delay_offsets(self) -> None:
        """Save the progress of the delay levels now and then: if it is old, deliveries are found in the log."""
        self._next_delay_save = self._clock.monotonic() + self._store.config.flush_delay_offset_interval / 1000
        if self._has_delay_progress:
            end = self._store.log.end_offset
            await self._store.flusher.flush()
            if self._store.flusher.durable_offset < end:
                # A power cut could take a delivery back and leave the progress after it.
                return
            self._has_delay_progress = False
            try:
                await self._parts.delivery.offsets.persist()
            except OSError as error:
                self._has_delay_progress = True
                log.error("delay offsets could not be saved, retrying: %s", error)


# Requests the page that begins with an item of this number, of this version ("" for the first page). Returns the
# version of the table, the number of items in the page, and the total; None if the response has the whole table.
_Page = Callable[[int, str], Awaitable[tuple[DataVersion, int, int | None]]]


async def _read_pages(page: _Page, clear: Callable[[], None]) -> DataVersion:
    """Read all pages of a table, and return its version; ProtocolError if it changes all the time."""
    for _ in range(_RESTARTS_MAX):
        clear()
        version, count, total = await page(0, "")
        is_same = True
        while is_same and total is not None and count < total:
            found, added, total = await page(count, msgspec.json.encode(version).decode())
            is_same = found == version and added > 0
            count += added
        if is_same:
            return version
    raise ProtocolError(f"the table has changed between its pages {_RESTARTS_MAX} times")
