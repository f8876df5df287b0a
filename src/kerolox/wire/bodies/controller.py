"""Sync state sets, replicas and epochs, as controllers and brokers of controller mode exchange them."""

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.routes import BrokerMemberGroup
from kerolox.wire.integers import Int32, Int64


class SyncStateSet(Body):
    """The ids of the brokers that hold all confirmed messages, the master included."""

    sync_state_set: list[Int64] = []
    sync_state_set_epoch: Int32 = 0


class ElectMasterResponseBody(Body):
    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[Int64] = []


class ReplicaIdentity(Body):
    alive: bool
    broker_address: str
    broker_id: Int64
    broker_name: str


class ReplicasInfo(Body):
    """The replicas of a broker group; the master is None if there is none."""

    in_sync_replicas: list[ReplicaIdentity] = []
    master_address: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 = 0
    not_in_sync_replicas: list[ReplicaIdentity] = []
    sync_state_set_epoch: Int32 = 0


class BrokerReplicasInfo(Body):
    """Broker name → replicas."""

    replicas_info_table: dict[str, ReplicasInfo] = msgspec.field(default_factory=dict)


class EpochEntry(Body):
    """The range of the commit log that the master of an epoch wrote; the last one ends at 2^63-1."""

    end_offset: Int64
    epoch: Int32
    start_offset: Int64


class EpochEntryCache(Body):
    broker_id: Int64
    broker_name: str
    cluster_name: str
    epoch_list: list[EpochEntry] = []
    max_offset: Int64 = 0
