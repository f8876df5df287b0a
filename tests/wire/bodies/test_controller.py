"""Bodies of controllers, in the JSON that RocketMQ 5.5.0 writes and reads."""

import pytest

from kerolox.errors import ProtocolError
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntry,
    EpochEntryCache,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from kerolox.wire.bodies.routes import BrokerMemberGroup

INFO = (
    b'{"replicasInfoTable":{"broker-a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"10.0.0.5:10911","brokerId":1,'
    b'"brokerName":"broker-a"}],"masterAddress":"10.0.0.5:10911","masterBrokerId":1,"masterEpoch":3,'
    b'"notInSyncReplicas":[],"syncStateSetEpoch":7}}}'
)


def test_a_sync_state_set_is_written_as_java_writes_it() -> None:
    body = SyncStateSet([1, 2], 7)

    assert body.encode() == b'{"syncStateSet":[1,2],"syncStateSetEpoch":7}'
    assert SyncStateSet.decode(body.encode(), REQUEST) == body


def test_replicas_are_written_as_java_writes_them() -> None:
    replica = ReplicaIdentity(True, "10.0.0.5:10911", 1, "broker-a")
    body = BrokerReplicasInfo({"broker-a": ReplicasInfo([replica], "10.0.0.5:10911", 1, 3, [], 7)})

    assert body.encode() == INFO
    assert BrokerReplicasInfo.decode(INFO) == body


def test_the_body_of_an_election_is_read_with_javas_integer_keys() -> None:
    data = (
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"10.0.0.5:10911"},"brokerName":"broker-a","cluster":"C"},'
        b'"syncStateSet":[1]}'
    )
    body = ElectMasterResponseBody(BrokerMemberGroup("C", "broker-a", {1: "10.0.0.5:10911"}), [1])

    assert ElectMasterResponseBody.decode(data) == body
    assert body.encode() == data


def test_epochs_of_a_broker_are_read() -> None:
    data = (
        b'{"brokerId":1,"brokerName":"broker-a","clusterName":"C","epochList":'
        b'[{"endOffset":9223372036854775807,"epoch":3,"startOffset":100}],"maxOffset":942}'
    )
    body = EpochEntryCache(1, "broker-a", "C", [EpochEntry(2**63 - 1, 3, 100)], 942)

    assert EpochEntryCache.decode(data) == body
    assert body.encode() == data


def test_a_set_of_names_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not a SyncStateSet"):
        SyncStateSet.decode(b'{"syncStateSet":["a"]}', REQUEST)
