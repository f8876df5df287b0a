"""The state of a broker group, and every rule that changes it, as pure functions (ReplicasInfoManager).

Each function takes a group (None if it does not exist), a request and the living brokers, and returns a Decision: the
group afterwards, the answer, and the notice to send. Nothing here reads a clock, a disk or a socket, so a model test
can run any order of requests, losses and restarts through these rules.

Rules on which the safety of acknowledged messages rests:

* Only a member of the sync state set is elected, because only members hold every acknowledged message.
* The master epoch grows with every election, also if nobody is elected, and never restarts, not even when the group is
  removed and created again. So there is at most one master per epoch.
* The set changes only at the request of the master of the current epoch, who knows the current set, and always contains
  that master.
* A broker that registers while it is master has restarted, and may have lost the end of its log. It gets a new epoch,
  or another member does: two histories under one epoch could not be told apart.
* A broker id is given to one broker only, and never again after it was removed.
"""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from kerolox.codes import ResponseCode
from kerolox.wire.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from kerolox.wire.bodies.routes import BrokerMemberGroup
from kerolox.wire.header import Empty, Header
from kerolox.wire.headers import controller as h
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)

FIRST_BROKER_ID = 1
# How many ids beyond the next one a broker may apply for. RocketMQ has no limit.
ID_GAP_MAX = 1000


class Replica(msgspec.Struct, frozen=True, rename="camel"):
    """A broker of the group. The check code tells whether a repeated application comes from the same broker."""

    address: str
    register_check_code: str
    # Identifies the files of its store, if the broker has sent it.
    store_id: str = ""


class BrokerGroup(msgspec.Struct, frozen=True, rename="camel"):
    """What a controller knows of a broker group for good. A removed group keeps its epochs and its next id."""

    cluster: str
    next_broker_id: int = FIRST_BROKER_ID
    replicas: dict[int, Replica] = {}
    master: int | None = None
    master_epoch: int = 0
    sync_state_set: frozenset[int] = frozenset()
    sync_state_set_epoch: int = 0

    @property
    def exists(self) -> bool:
        """Whether it has brokers; False after it was removed."""
        return bool(self.replicas)

    @property
    def master_address(self) -> str | None:
        return None if self.master is None else self.replicas[self.master].address

    def encoded_set(self) -> bytes:
        return SyncStateSet(sorted(self.sync_state_set), self.sync_state_set_epoch).encode()


class LiveBroker(msgspec.Struct, frozen=True):
    """What a living broker said in its last heartbeat."""

    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    election_priority: int = 2**31 - 1


Living = Mapping[int, LiveBroker]


class RoleChange(msgspec.Struct, frozen=True):
    """A notice of a new master for these addresses."""

    notice: h.NotifyBrokerRoleChanged
    sync_state_set: bytes
    addresses: tuple[str, ...]


class Decision(msgspec.Struct, Generic[A], frozen=True):
    """The answer may be sent only after `group`, if it differs from the one given, is stored."""

    group: BrokerGroup | None
    reply: Reply[A]
    role_change: RoleChange | None = None


# Identity


def next_broker_id(group: BrokerGroup | None, request: h.GetNextBrokerId) -> Reply[h.NextBrokerId]:
    next_id = FIRST_BROKER_ID if group is None else group.next_broker_id
    return Reply(
        h.NextBrokerId(cluster_name=request.cluster_name, next_broker_id=next_id, broker_name=request.broker_name)
    )


def apply_broker_id(group: BrokerGroup | None, request: h.ApplyBrokerId) -> Decision[h.BrokerIdApplied]:
    """Give a broker an id that no broker has had; an id that it has already is given again (its answer was lost)."""
    broker_id, code = request.applied_broker_id, request.register_check_code
    fields = h.BrokerIdApplied(cluster_name=request.cluster_name, broker_name=request.broker_name)
    known = None if group is None else group.replicas.get(broker_id)
    if known is not None and known.register_check_code == code:
        return Decision(group, Reply(fields))
    current = group or BrokerGroup(request.cluster_name)
    if not current.exists and broker_id != current.next_broker_id:
        remark = (
            f"Broker-set: {request.broker_name} hasn't been registered in controller, "
            f"but broker try to apply brokerId: {broker_id}"
        )
        return _refusal(group, ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, fields)
    if not current.next_broker_id <= broker_id < current.next_broker_id + ID_GAP_MAX:
        remark = f"Fail to apply brokerId: {broker_id} in broker-set: {request.broker_name}"
        return _refusal(group, ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, fields)
    after = msgspec.structs.replace(
        current,
        # A removed group may come back in another cluster.
        cluster=current.cluster if current.exists else request.cluster_name,
        next_broker_id=broker_id + 1,
        replicas={**current.replicas, broker_id: Replica(code.partition(";")[0], code)},
    )
    return Decision(after, Reply(fields))


def register_broker(
    group: BrokerGroup | None, request: h.RegisterBrokerToController, living: Living
) -> Decision[h.BrokerRegisteredAtController]:
    """Take the address of a broker that starts, and tell it the master, if that is alive."""
    broker_id, name = request.broker_id, request.broker_name
    fields = h.BrokerRegisteredAtController(cluster_name=request.cluster_name, broker_name=name)
    if group is None or not group.exists:
        remark = f"Broker-set: {name} hasn't been registered in controller"
        return _refusal(group, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, fields)
    replica = group.replicas.get(broker_id)
    if replica is None:
        remark = f"BrokerId: {broker_id} hasn't been registered in broker-set: {name}"
        return _refusal(group, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, fields)
    store_id = request.store_id or replica.store_id
    if replica.store_id and store_id != replica.store_id:
        remark = (
            f"brokerId {broker_id} of {name} has another store now ({store_id}, not {replica.store_id}): an id stands "
            "for a copy of the log; delete its brokerIdentity file to get a new id"
        )
        return _refusal(group, ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, fields)
    after = group
    if (request.broker_address, store_id) != (replica.address, replica.store_id):
        replica = msgspec.structs.replace(replica, address=request.broker_address, store_id=store_id)
        after = msgspec.structs.replace(after, replicas={**after.replicas, broker_id: replica})
    if after.master == broker_id:
        # It has restarted: see the rules above.
        after = _without_master(after)
    # A Java broker needs the body, also if there is no master.
    body = after.encoded_set()
    if after.master is None or after.master not in living:
        return Decision(after, Reply(fields, body))
    fields.master_broker_id, fields.master_address = after.master, after.master_address
    fields.master_epoch, fields.sync_state_set_epoch = after.master_epoch, after.sync_state_set_epoch
    return Decision(after, Reply(fields, body))


# Elections


def elect_master(
    group: BrokerGroup | None, request: h.ElectMaster, living: Living, *, is_unclean_allowed: bool = False
) -> Decision[h.MasterElected]:
    """Elect a master, unless the old one lives and no other is designated.

    `is_unclean_allowed` also elects a living broker outside the sync state set if no member lives: acknowledged
    messages are lost then.
    """
    if group is None or not group.exists:
        remark = "Broker hasn't been registered"
        return _refusal(group, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, h.MasterElected())
    by_controller = request.broker_id == h.NO_BROKER_ID
    if not by_controller and request.broker_id not in group.replicas:
        remark = f"BrokerId: {request.broker_id} hasn't been registered in broker-set: {request.broker_name}"
        return _refusal(group, ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, h.MasterElected())
    if not group.sync_state_set and not by_controller:
        # Nothing has been acknowledged yet, so the first broker that asks may be master.
        chosen: int | None = request.broker_id
    else:
        designated = request.broker_id if request.designate_elect and not by_controller else None
        chosen = _choose(group, group.sync_state_set, designated, living)
        if chosen is None and is_unclean_allowed:
            chosen = _choose(group, group.replicas, designated, living)
    if chosen is None:
        if not by_controller:
            remark = "Failed to elect a new master"
            return _refusal(group, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, remark, h.MasterElected())
        remark = "Old master has down and failed to elect a new broker master"
        after = _without_master(group)
        return _refusal(after, ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, remark, h.MasterElected())
    if chosen == group.master:
        remark = (
            f"The old master {chosen} is still alive, not need to elect new master for broker {request.broker_name}"
        )
        body = ElectMasterResponseBody(None, sorted(group.sync_state_set)).encode()
        return Decision(group, Reply(_elected(group), body, ResponseCode.CONTROLLER_MASTER_STILL_EXIST.value, remark))
    after = msgspec.structs.replace(
        group,
        master=chosen,
        master_epoch=group.master_epoch + 1,
        sync_state_set=frozenset((chosen,)),
        sync_state_set_epoch=group.sync_state_set_epoch + 1,
    )
    members = BrokerMemberGroup(
        after.cluster, request.broker_name, {number: it.address for number, it in after.replicas.items()}
    )
    # Standard JSON: Java's mqadmin reads this body as another class, and cannot skip keys without quotes.
    body = ElectMasterResponseBody(members, [chosen]).encode(strict=True)
    return Decision(after, Reply(_elected(after), body), role_change(after, living))


def role_change(group: BrokerGroup, living: Living) -> RoleChange:
    """Return the notice of the group's master for its living brokers."""
    fields = _elected(group)
    notice = h.NotifyBrokerRoleChanged(
        master_address=fields.master_address,
        master_broker_id=fields.master_broker_id,
        sync_state_set_epoch=fields.sync_state_set_epoch,
        master_epoch=fields.master_epoch,
    )
    addresses = tuple(replica.address for broker_id, replica in group.replicas.items() if broker_id in living)
    return RoleChange(notice, group.encoded_set(), addresses)


def _choose(group: BrokerGroup, candidates: Iterable[int], designated: int | None, living: Living) -> int | None:
    """Return the new master among the living candidates, which may be the old one; None if there is none."""
    alive = [candidate for candidate in candidates if candidate in living]
    if designated is not None:
        return designated if designated in alive else None
    if group.master in alive:
        return group.master

    def rank(candidate: int) -> tuple[int, int, int, int]:
        broker = living[candidate]
        return -broker.epoch, -broker.max_offset, broker.election_priority, candidate

    return min(alive, key=rank, default=None)


def _without_master(group: BrokerGroup) -> BrokerGroup:
    # The sync state set stays: its members are still the only ones that may be elected.
    return msgspec.structs.replace(group, master=None, master_epoch=group.master_epoch + 1)


def _elected(group: BrokerGroup) -> h.MasterElected:
    return h.MasterElected(
        master_broker_id=group.master,
        master_address=group.master_address,
        sync_state_set_epoch=group.sync_state_set_epoch,
        master_epoch=group.master_epoch,
    )


# Sync state set


def alter_sync_state_set(
    group: BrokerGroup | None, request: h.AlterSyncStateSet, wanted: SyncStateSet, living: Living
) -> Decision[h.SyncStateSetAltered]:
    """Replace the set at the request of the current master, who must know the current set."""
    new = frozenset(wanted.sync_state_set)
    refused = _alter_refusal(group, request, new, wanted.sync_state_set_epoch, living)
    if refused is not None:
        return _refusal(group, *refused, h.SyncStateSetAltered())
    assert group is not None
    epoch = group.sync_state_set_epoch + 1
    after = msgspec.structs.replace(group, sync_state_set=new, sync_state_set_epoch=epoch)
    return Decision(after, Reply(h.SyncStateSetAltered(new_sync_state_set_epoch=epoch), after.encoded_set()))


def _alter_refusal(
    group: BrokerGroup | None, request: h.AlterSyncStateSet, new: frozenset[int], set_epoch: int, living: Living
) -> tuple[ResponseCode, str] | None:
    """Return why the set may not change; the checks are in Java's order, and so are the remarks."""
    start = "Rejecting alter syncStateSet request because the"
    if group is None or not group.exists:
        return ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "Broker metadata is not existed"
    if new == group.sync_state_set:
        remark = "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
        return ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark
    if group.master is None or request.master_broker_id != group.master:
        remark = f"{start} current leader is:{{{_id(group.master)}}}, not {{{request.master_broker_id}}}"
        return ResponseCode.CONTROLLER_INVALID_MASTER, remark
    if request.master_epoch != group.master_epoch:
        remark = f"{start} current master epoch is:{{{group.master_epoch}}}, not {{{request.master_epoch}}}"
        return ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark
    if set_epoch != group.sync_state_set_epoch:
        remark = f"{start} current syncStateSet epoch is:{{{group.sync_state_set_epoch}}}, not {{{set_epoch}}}"
        return ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark
    for broker_id in sorted(new):
        if broker_id not in group.replicas:
            return ResponseCode.CONTROLLER_INVALID_REPLICAS, f"{start} replicas {{{broker_id}}} don't exist"
        if broker_id not in living:
            return ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"{start} replicas {{{broker_id}}} don't alive"
    if group.master not in new:
        remark = f"{start} newSyncStateSet don't contains origin leader {{{group.master}}}"
        return ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark
    return None


def _id(broker_id: int | None) -> str:
    return "null" if broker_id is None else str(broker_id)


# Removal


def clean_broker_data(group: BrokerGroup | None, request: h.CleanBrokerData, living: Living) -> Decision[Empty]:
    """Remove brokers, or the whole group; brokers that are alive only if the request says so."""
    name, spelled = request.broker_name, (request.broker_controller_ids_to_clean or "").strip()
    ids: set[int] = set()
    if spelled:
        try:
            ids = {int(part) for part in spelled.split(";")}
        except ValueError as error:
            remark = f"Please set the option <brokerControllerIdsToClean> according to the format, exception: {error}"
            return _clean_refusal(group, remark)
    if not request.is_clean_living_broker:
        if not spelled and group is not None and group.master is not None:
            return _clean_refusal(group, f"Broker {name} is still alive, clean up failure")
        for broker_id in sorted(ids or (group.replicas if group is not None else ())):
            if broker_id in living:
                return _clean_refusal(group, f"Broker [{name},  {broker_id}] is still alive, clean up failure")
    if group is None or not group.exists:
        return _clean_refusal(group, f"Broker {name} is not existed,clean broker data failure.")
    removed = (ids or set(group.replicas)) & set(group.replicas)
    if not removed:
        return Decision(group, Reply())
    replicas = {broker_id: it for broker_id, it in group.replicas.items() if broker_id not in removed}
    left = group.sync_state_set - removed
    if replicas and group.sync_state_set and not left:
        members = ", ".join(map(str, sorted(group.sync_state_set)))
        remark = (
            f"the sync state set of {name} is {members}: without it a broker that lacks acknowledged messages would "
            "become master. Remove the whole group (no brokerControllerIdsToClean) to accept that loss"
        )
        return _clean_refusal(group, remark)
    after = group
    if group.master in removed:
        after = _without_master(after)
    if left != group.sync_state_set:
        after = msgspec.structs.replace(after, sync_state_set=left, sync_state_set_epoch=after.sync_state_set_epoch + 1)
    return Decision(msgspec.structs.replace(after, replicas=replicas), Reply())


def _clean_refusal(group: BrokerGroup | None, remark: str) -> Decision[Empty]:
    return Decision(group, Reply(None, b"", ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA.value, remark))


# Queries


def replica_info(group: BrokerGroup | None) -> Reply[h.ReplicaInfo]:
    if group is None or not group.exists:
        remark = "Broker metadata is not existed"
        return Reply(h.ReplicaInfo(), b"", ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST.value, remark)
    fields = h.ReplicaInfo(
        master_broker_id=group.master, master_address=group.master_address, master_epoch=group.master_epoch
    )
    return Reply(fields, group.encoded_set())


def sync_state_data(groups: Mapping[str, tuple[BrokerGroup, Living]]) -> BrokerReplicasInfo:
    return BrokerReplicasInfo(
        {name: _replicas_info(name, group, living) for name, (group, living) in groups.items() if group.exists}
    )


def _replicas_info(name: str, group: BrokerGroup, living: Living) -> ReplicasInfo:
    info = ReplicasInfo(
        in_sync_replicas=[],
        master_address=group.master_address,
        master_broker_id=group.master,
        master_epoch=group.master_epoch,
        not_in_sync_replicas=[],
        sync_state_set_epoch=group.sync_state_set_epoch,
    )
    for broker_id, replica in sorted(group.replicas.items()):
        is_member = broker_id in group.sync_state_set
        replicas = info.in_sync_replicas if is_member else info.not_in_sync_replicas
        replicas.append(ReplicaIdentity(broker_id in living, replica.address, broker_id, name))
    return info


def _refusal(group: BrokerGroup | None, code: ResponseCode, remark: str, fields: A) -> Decision[A]:
    return Decision(group, Reply(fields, b"", code.value, remark))
