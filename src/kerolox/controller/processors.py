"""The request processors of the controller (ControllerRequestProcessor)."""

import re
from collections.abc import Callable
from typing import TypeVar

from kerolox.controller import state
from kerolox.controller.config import ControllerConfig
from kerolox.controller.elections import Notifier
from kerolox.controller.errors import InvalidRequest
from kerolox.controller.groups import BrokerGroups
from kerolox.controller.leadership import LeadershipService
from kerolox.controller.liveness import BrokerKey, Liveness
from kerolox.controller.state import BrokerGroup, Decision, LiveBroker, Living
from kerolox.errors import ConfigurationError, SystemFailure
from kerolox.remoting.address import parse_address
from kerolox.remoting.audit import audited
from kerolox.remoting.config_update import ConfigFile, in_words, shown, wanted_changes
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.files import Disk
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.controller import SyncStateSet
from kerolox.wire.header import Empty, Header
from kerolox.wire.headers import controller as h
from kerolox.wire.headers.namesrv import BrokerHeartbeat
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)

NAME_LENGTH_MAX = 255
# Broker names in one GET_SYNC_STATE_DATA, so that its answer does not hold the event loop for long.
NAMES_MAX = 1000
_NAME = re.compile(rf"[^\x00-\x20\x7f]{{1,{NAME_LENGTH_MAX}}}")


class BrokerProcessor:
    """Requests of brokers, and those of operators that change a group."""

    def __init__(
        self,
        groups: BrokerGroups,
        liveness: Liveness,
        leadership: LeadershipService,
        notifier: Notifier,
        config: ControllerConfig,
    ) -> None:
        self._groups = groups
        self._liveness = liveness
        self._leadership = leadership
        self._notifier = notifier
        self._config = config

    @handles(BrokerHeartbeat)
    def heartbeat(self, request: Incoming[BrokerHeartbeat]) -> Reply[Empty]:
        header = request.header
        if header.broker_id is None:
            raise InvalidRequest("Heart beat with empty brokerId")
        key = BrokerKey(
            _name("clusterName", header.cluster_name), _name("brokerName", header.broker_name), header.broker_id
        )
        broker = LiveBroker(
            epoch=-1 if header.epoch is None else header.epoch,
            max_offset=-1 if header.max_offset is None else header.max_offset,
            confirm_offset=-1 if header.confirm_offset is None else header.confirm_offset,
            election_priority=2**31 - 1 if header.election_priority is None else header.election_priority,
        )
        if request.connection.is_closed:
            # The close event is over, so the broker would count as alive until its heartbeat expires.
            return Reply()
        if not self._liveness.beat(key, broker, request.connection, header.heartbeat_timeout_mills):
            raise InvalidRequest(
                f"heartbeats of {self._liveness.count} brokers are kept already, which is the limit (brokerNumsMax)"
            )
        return Reply(remark="Heart beat success")

    @handles(h.GetNextBrokerId)
    async def next_broker_id(self, request: Incoming[h.GetNextBrokerId]) -> Reply[h.NextBrokerId]:
        group = await self._current(request.header.broker_name)
        return state.next_broker_id(group, request.header)

    @handles(h.ApplyBrokerId)
    async def apply_broker_id(self, request: Incoming[h.ApplyBrokerId]) -> Reply[h.BrokerIdApplied]:
        header = request.header
        _name("clusterName", header.cluster_name)
        _name("registerCheckCode", header.register_check_code)
        _address("registerCheckCode", header.register_check_code.partition(";")[0])

        def decide(group: BrokerGroup | None) -> Decision[h.BrokerIdApplied]:
            decision = state.apply_broker_id(group, header)
            if decision.group is not None and len(decision.group.replicas) > self._config.replica_nums_max:
                raise InvalidRequest(
                    f"{header.broker_name} has {self._config.replica_nums_max} brokers already, which is the limit "
                    "(replicaNumsMax); cleanBrokerMetadata removes those that do not exist any more"
                )
            return decision

        return await self._change(header.broker_name, decide)

    @handles(h.RegisterBrokerToController)
    async def register(self, request: Incoming[h.RegisterBrokerToController]) -> Reply[h.BrokerRegisteredAtController]:
        header = request.header
        _address("brokerAddress", header.broker_address)
        if header.store_id:
            _name("storeId", header.store_id)
        return await self._change(
            header.broker_name, lambda group: state.register_broker(group, header, self._living(group, header))
        )

    @handles(h.ElectMaster)
    async def elect(self, request: Incoming[h.ElectMaster]) -> Reply[h.MasterElected]:
        header = request.header
        if not header.designate_elect:
            return await self._elect(header)
        with audited(request, f"elect broker {header.broker_id} of {header.broker_name}"):
            return await self._elect(header)

    async def _elect(self, header: h.ElectMaster) -> Reply[h.MasterElected]:
        return await self._change(
            header.broker_name,
            lambda group: state.elect_master(
                group,
                header,
                self._living(group, header),
                is_unclean_allowed=self._config.enable_elect_unclean_master,
            ),
        )

    @handles(h.AlterSyncStateSet)
    async def alter_sync_state_set(self, request: Incoming[h.AlterSyncStateSet]) -> Reply[h.SyncStateSetAltered]:
        header, wanted = request.header, SyncStateSet.decode(request.body, REQUEST)
        if len(wanted.sync_state_set) > self._config.replica_nums_max:
            raise InvalidRequest(
                f"a set of {len(wanted.sync_state_set)} brokers exceeds the limit of {self._config.replica_nums_max} "
                "(replicaNumsMax)"
            )
        return await self._change(
            header.broker_name,
            lambda group: state.alter_sync_state_set(group, header, wanted, self._living(group, header)),
        )

    @handles(h.CleanBrokerData)
    async def clean(self, request: Incoming[h.CleanBrokerData]) -> Reply[Empty]:
        header = request.header
        which = header.broker_controller_ids_to_clean or "all"
        with audited(request, f"remove brokers {which[:NAME_LENGTH_MAX]} of {header.broker_name}"):
            return await self._change(
                header.broker_name, lambda group: state.clean_broker_data(group, header, self._living(group, header))
            )

    @handles(h.GetReplicaInfo)
    async def replica_info(self, request: Incoming[h.GetReplicaInfo]) -> Reply[h.ReplicaInfo]:
        return state.replica_info(await self._current(request.header.broker_name))

    @handles(h.GetSyncStateData)
    async def sync_state_data(self, request: Incoming[h.GetSyncStateData]) -> Reply[Empty]:
        names = fastjson.decode(request.body, list[str], REQUEST) if request.body else []
        if not names or len(names) > NAMES_MAX:
            raise InvalidRequest(f"the body must be a JSON list of 1 to {NAMES_MAX} broker names")
        found = {name: group for name in names if (group := await self._current(name)) is not None}
        living = {name: self._liveness.living(group.cluster, name) for name, group in found.items()}
        return Reply(None, state.sync_state_data({name: (it, living[name]) for name, it in found.items()}).encode())

    async def _current(self, name: str) -> BrokerGroup | None:
        _name("brokerName", name)
        self._leadership.require()
        return await self._groups.get(name)

    async def _change(self, name: str, decide: Callable[[BrokerGroup | None], Decision[A]]) -> Reply[A]:
        _name("brokerName", name)
        self._leadership.require()
        decision = await self._groups.change(name, decide)
        self._notifier.submit(decision.role_change)
        return decision.reply

    def _living(
        self,
        group: BrokerGroup | None,
        header: h.RegisterBrokerToController | h.ElectMaster | h.AlterSyncStateSet | h.CleanBrokerData,
    ) -> Living:
        return {} if group is None else self._liveness.living(group.cluster, header.broker_name)


class MetadataProcessor:
    """Requests about the controllers themselves; each of them answers, also if it does not lead."""

    def __init__(
        self,
        config: ControllerConfig,
        leadership: LeadershipService,
        peers: Callable[[], dict[str, str]],
        disk: Disk,
    ) -> None:
        self._config = config
        self._leadership = leadership
        self._peers = peers
        self._file = ConfigFile(disk)

    @handles(h.GetControllerMetadata)
    def metadata(self, request: Incoming[h.GetControllerMetadata]) -> Reply[h.ControllerMetadata]:
        current = self._leadership.current
        return Reply(
            h.ControllerMetadata(
                group=self._config.group,
                controller_leader_id=current.leader_id or None,
                controller_leader_address=current.leader_address or None,
                is_leader=current.is_leader,
                peers=";".join(f"{peer_id}:{address}" for peer_id, address in self._peers().items()),
            )
        )

    @handles(h.GetControllerConfig)
    def get_config(self, request: Incoming[h.GetControllerConfig]) -> Reply[Empty]:
        return Reply(None, shown(self._config.to_properties()))

    @handles(h.UpdateControllerConfig)
    async def update_config(self, request: Incoming[h.UpdateControllerConfig]) -> Reply[Empty]:
        with audited(request, f"change configuration: {in_words(request.body, self._config.keys())}"):
            await self._update(request.body)
        return Reply()

    async def _update(self, body: bytes) -> None:
        changes = wanted_changes(body, self._config.keys(), black_list=self._config.config_black_list)
        try:
            self._config.update(changes)
        except ConfigurationError as error:
            raise SystemFailure(str(error)) from error
        if changes and self._config.config_store_path is not None:
            await self._file.save(self._config.config_store_path, self._config.to_properties())


def _name(field: str, text: str | None) -> str:
    if text is None or not _NAME.fullmatch(text):
        raise InvalidRequest(
            f"{field} must have 1 to {NAME_LENGTH_MAX} characters, without blanks and control characters"
        )
    return text


def _address(field: str, text: str) -> None:
    try:
        parse_address(text)
    except ConfigurationError as error:
        raise InvalidRequest(f"{field}: {error}") from error
