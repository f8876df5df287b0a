"""Requests to a controller, and its notices to brokers (5.0 and later). Fields are in Java's order.

BROKER_HEARTBEAT, which a NameServer gets as well, is in headers/namesrv.py.
"""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.integers import Int32, Int64

# The broker id in ELECT_MASTER if the controller asks, not a broker.
NO_BROKER_ID = -1


# Identity of a broker in its group


class NextBrokerId(Header):
    cluster_name: str | None = None
    next_broker_id: Int64 | None = None
    broker_name: str | None = None


class GetNextBrokerId(Request[NextBrokerId], code=RequestCode.CONTROLLER_GET_NEXT_BROKER_ID):
    cluster_name: str
    broker_name: str


class BrokerIdApplied(Header):
    cluster_name: str | None = None
    broker_name: str | None = None


class ApplyBrokerId(Request[BrokerIdApplied], code=RequestCode.CONTROLLER_APPLY_BROKER_ID):
    applied_broker_id: Int64
    # `address;milliseconds`: tells a repeated request from that of another broker.
    register_check_code: str
    cluster_name: str
    broker_name: str


class BrokerRegisteredAtController(Header):
    """The master is set only if it is alive. Response body: SyncStateSet, in any case."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    cluster_name: str | None = None
    broker_name: str | None = None
    sync_state_set_epoch: Int32 | None = None
    master_epoch: Int32 | None = None


class RegisterBrokerToController(
    Request[BrokerRegisteredAtController], code=RequestCode.CONTROLLER_REGISTER_BROKER, kw_only=True
):
    """Sent when a broker starts."""

    broker_id: Int64
    invoke_time: Int64 | None = None
    cluster_name: str
    broker_name: str
    broker_address: str
    # Identifies the files of the store; only our brokers send it.
    store_id: str | None = None


# Master and sync state set


class SyncStateSetAltered(Header):
    new_sync_state_set_epoch: Int32 = 0


class AlterSyncStateSet(Request[SyncStateSetAltered], code=RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, kw_only=True):
    """Request body: SyncStateSet, the new set with the old epoch. Response body: SyncStateSet with the new epoch."""

    master_broker_id: Int64
    invoke_time: Int64 | None = None
    broker_name: str
    master_epoch: Int32


class MasterElected(Header):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    sync_state_set_epoch: Int32 | None = None
    master_epoch: Int32 | None = None


class ElectMaster(Request[MasterElected], code=RequestCode.CONTROLLER_ELECT_MASTER, kw_only=True):
    """Response body: ElectMasterResponseBody."""

    broker_id: Int64 = NO_BROKER_ID
    invoke_time: Int64 | None = None
    cluster_name: str = ""
    # Whether this broker shall become master, although there is one.
    designate_elect: bool = False
    broker_name: str


class ReplicaInfo(Header):
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class GetReplicaInfo(Request[ReplicaInfo], code=RequestCode.CONTROLLER_GET_REPLICA_INFO):
    """Response body: SyncStateSet."""

    broker_name: str


class GetSyncStateData(Request[Empty], code=RequestCode.CONTROLLER_GET_SYNC_STATE_DATA):
    """Request body: JSON list of broker names. Response body: BrokerReplicasInfo."""


class NotifyBrokerRoleChanged(Request[Empty], code=RequestCode.NOTIFY_BROKER_ROLE_CHANGED):
    """Oneway from the controller to the living brokers of a group. Request body: SyncStateSet."""

    master_address: str | None = None
    master_broker_id: Int64 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_epoch: Int32 | None = None


class GetBrokerEpochCache(Request[Empty], code=RequestCode.GET_BROKER_EPOCH_CACHE):
    """To a broker. Response body: EpochEntryCache."""


# The controller itself


class ControllerMetadata(Header):
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    # `id:address;id:address`
    peers: str | None = None
    group: str | None = None


class GetControllerMetadata(Request[ControllerMetadata], code=RequestCode.CONTROLLER_GET_METADATA_INFO):
    pass


class UpdateControllerConfig(Request[Empty], code=RequestCode.UPDATE_CONTROLLER_CONFIG):
    """Request body: the text of a properties file."""


class GetControllerConfig(Request[Empty], code=RequestCode.GET_CONTROLLER_CONFIG):
    """Response body: the text of a properties file."""


class CleanBrokerData(Request[Empty], code=RequestCode.CLEAN_BROKER_DATA, kw_only=True):
    # `1;2`; None for the whole group.
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None
    cluster_name: str | None = None
    broker_name: str
