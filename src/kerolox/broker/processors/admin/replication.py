"""Requests of slaves to their master, of masters to slaves, and of operators about replication."""

import logging
import uuid

from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.assignment import RequestModes
from kerolox.broker.registration.registrar import Registrar
from kerolox.broker.replication.replication import Replication
from kerolox.errors import SystemFailure
from kerolox.remoting.audit import audited
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import in_turns
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.replication import MetadataChanges, MetadataQuery
from kerolox.wire.header import Empty
from kerolox.wire.headers import offsets as o
from kerolox.wire.headers import replication as h
from kerolox.wire.headers.namesrv import NotifyMinBrokerIdChange
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

# Entries encoded without yielding to other tasks.
_KEYS_AT_ONCE = 500
# Offsets in a response, which is encoded at once; a slave that lacks more reads the whole table.
_CHANGED_OFFSETS_MAX = 50_000


class MetadataProcessor:
    """What slaves copy besides the log."""

    def __init__(self, parts: BrokerParts, modes: RequestModes) -> None:
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._delivery = parts.delivery
        self._timer = parts.timer
        self._modes = modes
        # Versions that count changes since the start mean nothing to a slave that has seen another start.
        self._start = uuid.uuid4().hex

    @handles(h.GetMetadataChanges)
    def changes(self, request: Incoming[h.GetMetadataChanges]) -> Reply[Empty]:
        query = MetadataQuery.decode(request.body, REQUEST)
        is_known = query.master_start == self._start
        has_timer = self._store.config.timer_wheel_enable
        timer, deletions = self._timer.checkpoint, self._store.topic_cleanup.deletions
        changes = MetadataChanges(
            master_start=self._start,
            log_end_offset=self._store.log.end_offset,
            topics_version=self._topics.data_version,
            groups_version=self._groups.data_version,
            modes_version=str(self._modes.version),
            timer_version=f"{timer.read_time}-{timer.queue_offset}-{timer.counter}" if has_timer else "",
            delay_offsets=self._delivery.progress,
            deletions_version=f"{len(deletions)}-{max(deletions.values(), default=0)}",
        )
        if not is_known or query.deletions_version != changes.deletions_version:
            changes.deleted_topics = dict(deletions)
        if query.offsets_version is not None:
            changes.offsets_version = self._offsets.data_version
            changes.pop_position = self._offsets.saved_pop_position()
            if is_known:
                changes.offsets = self._offsets.changes_since(query.offsets_version, count_max=_CHANGED_OFFSETS_MAX)
        return Reply(None, changes.encode())

    @handles(o.GetAllConsumerOffset)
    async def consumer_offsets(self, request: Incoming[o.GetAllConsumerOffset]) -> Reply[Empty]:
        version = self._offsets.data_version.encode()
        pieces: list[bytes] = []
        async for key in in_turns(list(self._offsets.table), count=_KEYS_AT_ONCE):
            offsets = self._offsets.table.get(key)
            if offsets is not None:
                pieces.append(fastjson.encode({key: offsets})[1:-1])
        return Reply(None, b'{"dataVersion":%b,"offsetTable":{%b}}' % (version, b",".join(pieces)))

    @handles(o.GetAllDelayOffset)
    def delay_offsets(self, request: Incoming[o.GetAllDelayOffset]) -> Reply[Empty]:
        return Reply(None, self._delivery.offsets.encode())

    @handles(h.GetTimerCheckPoint)
    def timer_checkpoint(self, request: Incoming[h.GetTimerCheckPoint]) -> Reply[Empty]:
        self._check_timer("checkpoint")
        return Reply(None, self._timer.checkpoint.encode())

    @handles(h.GetTimerMetrics)
    def timer_metrics(self, request: Incoming[h.GetTimerMetrics]) -> Reply[Empty]:
        self._check_timer("metrics")
        return Reply(None, fastjson.encode(self._timer.metrics.counts))

    def _check_timer(self, what: str) -> None:
        if not self._store.config.timer_wheel_enable:
            raise SystemFailure(f"The {what} is null")


class HaProcessor:
    """The state of replication (HAService.getRuntimeInfo)."""

    def __init__(self, replication: Replication, registration: Registrar) -> None:
        self._replication = replication
        self._registration = registration

    @handles(h.GetBrokerHaStatus)
    def status(self, request: Incoming[h.GetBrokerHaStatus]) -> Reply[Empty]:
        return Reply(None, self._replication.runtime_info().encode())

    @handles(h.ExchangeBrokerHaInfo)
    def exchange(self, request: Incoming[h.ExchangeBrokerHaInfo]) -> Reply[h.HaInfo]:
        """Tell a slave the addresses of this master; or, if a master tells its own, ask the NameServers for them.

        Java's slaves follow whoever sends this request. Here only NameServers, and haMasterAddress, name a master.
        """
        if request.header.master_ha_address:
            self._registration.register_soon()
            return Reply(h.HaInfo())
        return Reply(self._replication.ha_info())

    @handles(NotifyMinBrokerIdChange)
    def min_broker_id_changed(self, request: Incoming[NotifyMinBrokerIdChange]) -> Reply[Empty]:
        """A broker of the group came or went: a slave asks the NameServers for its master."""
        header = request.header
        log.info("the minimum broker id is now %s at %s", header.min_broker_id, header.min_broker_addr)
        if self._replication.is_slave:
            self._registration.register_soon()
        return Reply()

    @handles(h.ResetMasterFlushOffset)
    def reset_flush_offset(self, request: Incoming[h.ResetMasterFlushOffset]) -> Reply[Empty]:
        with audited(request, f"set the master's flush offset to {request.header.master_flush_offset}"):
            if request.header.master_flush_offset is not None:
                self._replication.master_flush_offset = request.header.master_flush_offset
        return Reply()
