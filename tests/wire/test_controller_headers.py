"""Headers of controllers have the fields of RocketMQ 5.5.0, in the order of Java's hash map."""

from typing import Any

import msgspec
import pytest

from kerolox.cli.admin.java_format import in_hash_order
from kerolox.codes import RequestCode
from kerolox.errors import SystemFailure
from kerolox.wire.header import Header, Request
from kerolox.wire.headers import controller as h
from kerolox.wire.headers.namesrv import BrokerHeartbeat

# From the classes of rocketmq-remoting 5.5.0; the order in a class does not matter.
FIELDS: dict[type[Header], str] = {
    h.AlterSyncStateSet: "brokerName masterBrokerId masterEpoch invokeTime",
    h.SyncStateSetAltered: "newSyncStateSetEpoch",
    h.ElectMaster: "clusterName brokerName brokerId designateElect invokeTime",
    h.MasterElected: "masterBrokerId masterAddress masterEpoch syncStateSetEpoch",
    h.RegisterBrokerToController: "clusterName brokerName brokerId brokerAddress invokeTime",
    h.BrokerRegisteredAtController: (
        "clusterName brokerName masterBrokerId masterAddress masterEpoch syncStateSetEpoch"
    ),
    h.GetReplicaInfo: "brokerName",
    h.ReplicaInfo: "masterBrokerId masterAddress masterEpoch",
    h.ControllerMetadata: "group controllerLeaderId controllerLeaderAddress isLeader peers",
    h.NotifyBrokerRoleChanged: "masterAddress masterEpoch syncStateSetEpoch masterBrokerId",
    h.CleanBrokerData: "clusterName brokerName brokerControllerIdsToClean isCleanLivingBroker invokeTime",
    h.GetNextBrokerId: "clusterName brokerName",
    h.NextBrokerId: "clusterName brokerName nextBrokerId",
    h.ApplyBrokerId: "clusterName brokerName appliedBrokerId registerCheckCode",
    h.BrokerIdApplied: "clusterName brokerName",
    BrokerHeartbeat: (
        "clusterName brokerAddr brokerName brokerId epoch maxOffset confirmOffset heartbeatTimeoutMills "
        "electionPriority"
    ),
}
# The one field that is an addition of ours.
ADDED: dict[type[Header], list[str]] = {h.RegisterBrokerToController: ["storeId"]}


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_fields_are_those_of_java(kind: type[Header]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(kind)]

    # A map of up to twelve entries has sixteen buckets, as the one that `in_hash_order` assumes.
    assert names == [*in_hash_order(dict.fromkeys(FIELDS[kind].split(), "")), *ADDED.get(kind, [])]


def test_every_request_of_controllers_is_declared() -> None:
    kinds: dict[int, type[Request[Any]]] = {
        kind.code: kind
        for kind in vars(h).values()
        if isinstance(kind, type) and issubclass(kind, Request) and hasattr(kind, "code")
    }

    assert sorted(kinds) == list(range(1001, 1014))
    assert kinds[RequestCode.GET_BROKER_EPOCH_CACHE] is h.GetBrokerEpochCache


def test_an_election_asked_for_by_the_controller_needs_only_a_name() -> None:
    request = h.ElectMaster.decode({"brokerName": "broker-a"})

    assert (request.broker_id, request.designate_elect) == (-1, False)


def test_a_missing_name_is_refused() -> None:
    with pytest.raises(SystemFailure, match="brokerName"):
        h.ElectMaster.decode({"brokerId": "1"})
