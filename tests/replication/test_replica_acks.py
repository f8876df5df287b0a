"""When enough slaves hold a message."""

import pytest

from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_acks import ReplicaAcks


@pytest.mark.parametrize(
    ("replicas", "reported", "held"),
    [
        (2, {}, 0),
        (2, {"a": 50}, 50),
        (2, {"a": 50, "b": 70}, 70),
        (3, {"a": 50}, 0),
        (3, {"a": 50, "b": 70}, 50),
        (3, {"a": 50, "b": 70, "c": 60}, 60),
    ],
)
def test_the_held_offset_is_that_of_as_many_slaves_as_are_needed(
    replicas: int, reported: dict[str, int], held: int
) -> None:
    acks = ReplicaAcks(ReplicationConfig(in_sync_replicas=replicas))
    notified = []
    acks.subscribe(lambda: notified.append(acks.held_offset()))
    acks.update(reported)
    assert notified == [held]


def test_with_one_copy_or_as_asynchronous_master_none_is_needed() -> None:
    assert ReplicaAcks(ReplicationConfig()).are_needed()
    assert not ReplicaAcks(ReplicationConfig(in_sync_replicas=1)).are_needed()
    assert not ReplicaAcks(ReplicationConfig(), is_sync_master=lambda: False).are_needed()


def test_slaves_that_are_too_far_behind_are_not_available() -> None:
    acks = ReplicaAcks(ReplicationConfig(in_sync_replicas=3, ha_max_gap_not_in_sync=100))
    acks.update({"a": 1000, "b": 901})
    assert acks.are_available(1000)
    assert not acks.are_available(1001)
    assert acks.in_sync_count(1001) == 1


def test_the_number_of_copies_is_lowered_to_the_slaves_in_sync_but_not_below_the_least() -> None:
    acks = ReplicaAcks(ReplicationConfig(in_sync_replicas=3, enable_auto_in_sync_replicas=True, min_in_sync_replicas=2))
    assert acks.are_needed()
    assert not acks.are_available(1000)
    acks.update({"a": 1000})
    assert (acks.are_available(1000), acks.held_offset()) == (True, 1000)
    acks.update({"a": 1000, "b": 900})
    assert acks.held_offset() == 900


def test_keys_are_rocketmqs() -> None:
    config = ReplicationConfig.from_properties(
        {"haSlaveFallbehindMax": "7", "slaveTimeout": "5", "inSyncReplicas": "1"}
    )
    assert (config.ha_max_gap_not_in_sync, config.slave_timeout, config.in_sync_replicas) == (7, 5, 1)
