"""The rules of the controller, one decision at a time."""

from typing import Any

import msgspec
import pytest

from kerolox.codes import ResponseCode as R
from kerolox.controller import state
from kerolox.controller.state import BrokerGroup, Decision, LiveBroker, Replica
from kerolox.wire.bodies.controller import ElectMasterResponseBody, SyncStateSet
from kerolox.wire.headers import controller as h

NAME = "broker-a"
ALL = {number: LiveBroker(epoch=3, max_offset=100) for number in (1, 2, 3)}
# Broker 1 is master; 1 and 2 hold everything.
GROUP = BrokerGroup(
    "C",
    4,
    {number: Replica(f"10.0.0.{number}:10911", f"10.0.0.{number}:10911;170000000000{number}") for number in (1, 2, 3)},
    master=1,
    master_epoch=3,
    sync_state_set=frozenset({1, 2}),
    sync_state_set_epoch=7,
)


def living(*numbers: int) -> dict[int, LiveBroker]:
    return {number: ALL[number] for number in numbers}


def code(decision: Decision[Any]) -> int:
    return decision.reply.code


# Identity


def apply(
    group: BrokerGroup | None, broker_id: int, check: str = "10.0.0.9:10911;17", cluster: str = "C"
) -> Decision[h.BrokerIdApplied]:
    return state.apply_broker_id(
        group,
        h.ApplyBrokerId(applied_broker_id=broker_id, register_check_code=check, cluster_name=cluster, broker_name=NAME),
    )


def test_the_first_broker_of_a_group_gets_id_1_and_its_address_from_the_check_code() -> None:
    decision = apply(None, 1)

    assert decision.group == BrokerGroup("C", 2, {1: Replica("10.0.0.9:10911", "10.0.0.9:10911;17")})
    assert decision.reply.fields == h.BrokerIdApplied(cluster_name="C", broker_name=NAME)


def test_a_new_group_does_not_begin_with_another_id() -> None:
    decision = apply(None, 2)

    assert (code(decision), decision.group) == (R.CONTROLLER_BROKER_ID_INVALID, None)
    assert decision.reply.remark == (
        "Broker-set: broker-a hasn't been registered in controller, but broker try to apply brokerId: 2"
    )


def test_a_repeated_application_is_granted_without_a_change() -> None:
    first = apply(None, 1)
    again = apply(first.group, 1)

    assert code(again) == R.SUCCESS
    assert again.group is first.group


def test_an_id_of_another_broker_is_refused() -> None:
    decision = apply(apply(None, 1).group, 1, "10.0.0.8:10911;18")

    assert (code(decision), decision.reply.remark) == (2014, "Fail to apply brokerId: 1 in broker-set: broker-a")


@pytest.mark.parametrize("broker_id", [0, -1, 4 + state.ID_GAP_MAX, 2**62])
def test_an_id_far_from_the_next_one_is_refused(broker_id: int) -> None:
    assert code(apply(GROUP, broker_id)) == R.CONTROLLER_BROKER_ID_INVALID


def test_a_removed_id_is_not_given_again() -> None:
    group = clean(GROUP, "3", alive=()).group

    assert code(apply(group, 3)) == R.CONTROLLER_BROKER_ID_INVALID
    assert code(apply(group, 4)) == R.SUCCESS


def test_the_next_id_is_1_for_an_unknown_group() -> None:
    request = h.GetNextBrokerId(cluster_name="C", broker_name=NAME)

    assert state.next_broker_id(None, request).fields.next_broker_id == 1
    assert state.next_broker_id(GROUP, request).fields.next_broker_id == 4


def register(
    group: BrokerGroup | None,
    broker_id: int,
    *,
    address: str | None = None,
    store_id: str | None = None,
    alive: tuple[int, ...] = (1, 2, 3),
) -> Decision[h.BrokerRegisteredAtController]:
    request = h.RegisterBrokerToController(
        broker_id=broker_id,
        cluster_name="C",
        broker_name=NAME,
        broker_address=address or f"10.0.0.{broker_id}:10911",
        store_id=store_id,
    )
    return state.register_broker(group, request, living(*alive))


def test_a_broker_that_registers_is_told_the_living_master() -> None:
    decision = register(GROUP, 2)

    assert decision.group is GROUP
    assert decision.reply.fields == h.BrokerRegisteredAtController(
        cluster_name="C",
        broker_name=NAME,
        master_broker_id=1,
        master_address="10.0.0.1:10911",
        master_epoch=3,
        sync_state_set_epoch=7,
    )
    assert SyncStateSet.decode(decision.reply.body) == SyncStateSet([1, 2], 7)


def test_a_broker_that_registers_is_not_told_a_dead_master() -> None:
    decision = register(GROUP, 2, alive=(2,))

    assert decision.reply.fields == h.BrokerRegisteredAtController(cluster_name="C", broker_name=NAME)
    assert SyncStateSet.decode(decision.reply.body) == SyncStateSet([1, 2], 7), "Java's brokers need it"


def test_a_new_address_is_kept() -> None:
    group = register(GROUP, 2, address="10.0.0.77:10911").group

    assert group is not None
    assert group.replicas[2] == Replica("10.0.0.77:10911", GROUP.replicas[2].register_check_code)


def test_a_master_that_registers_has_restarted_and_needs_a_new_election() -> None:
    decision = register(GROUP, 1)

    assert decision.group == msgspec.structs.replace(GROUP, master=None, master_epoch=4)
    assert decision.reply.fields.master_broker_id is None


def test_an_unknown_broker_has_to_apply_for_an_id_first() -> None:
    assert code(register(None, 1)) == R.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    decision = register(GROUP, 4)
    assert (code(decision), decision.reply.remark) == (
        2010,
        "BrokerId: 4 hasn't been registered in broker-set: broker-a",
    )


def test_a_broker_whose_store_was_replaced_is_refused() -> None:
    group = register(GROUP, 2, store_id="aa").group
    decision = register(group, 2, store_id="bb")

    assert code(register(group, 2, store_id="aa")) == R.SUCCESS
    assert code(register(group, 2)) == R.SUCCESS, "a Java broker sends no store id"
    assert (code(decision), decision.group) == (R.CONTROLLER_BROKER_ID_INVALID, group)
    assert "delete its brokerIdentity file" in (decision.reply.remark or "")


# Elections


def elect(
    group: BrokerGroup | None,
    broker_id: int = -1,
    *,
    alive: dict[int, LiveBroker],
    designate: bool = False,
    unclean: bool = False,
) -> Decision[h.MasterElected]:
    request = h.ElectMaster(broker_id=broker_id, cluster_name="C", broker_name=NAME, designate_elect=designate)
    return state.elect_master(group, request, alive, is_unclean_allowed=unclean)


def test_the_first_broker_that_asks_is_the_first_master() -> None:
    group = apply(apply(None, 1).group, 2, "10.0.0.8:10911;18").group
    decision = elect(group, 2, alive={})

    assert decision.group is not None
    assert (decision.group.master, decision.group.master_epoch) == (2, 1)
    assert (set(decision.group.sync_state_set), decision.group.sync_state_set_epoch) == ({2}, 1)
    assert decision.reply.fields == h.MasterElected(
        master_broker_id=2, master_address="10.0.0.8:10911", sync_state_set_epoch=1, master_epoch=1
    )


def test_a_living_master_stays() -> None:
    decision = elect(GROUP, 2, alive=ALL)

    assert decision.group is GROUP
    assert code(decision) == R.CONTROLLER_MASTER_STILL_EXIST
    assert decision.reply.fields.master_broker_id == 1
    assert ElectMasterResponseBody.decode(decision.reply.body) == ElectMasterResponseBody(None, [1, 2])


def test_only_a_living_member_of_the_sync_state_set_is_elected() -> None:
    alive = {2: LiveBroker(epoch=3, max_offset=10), 3: LiveBroker(epoch=3, max_offset=1000)}
    decision = elect(GROUP, 3, alive=alive)

    assert decision.group == msgspec.structs.replace(
        GROUP, master=2, master_epoch=4, sync_state_set=frozenset({2}), sync_state_set_epoch=8
    )
    assert code(elect(GROUP, 3, alive=living(3))) == R.CONTROLLER_ELECT_MASTER_FAILED


def test_living_brokers_are_notified_of_a_new_master() -> None:
    change = elect(GROUP, alive=living(2, 3)).role_change

    assert change is not None
    assert change.addresses == ("10.0.0.2:10911", "10.0.0.3:10911")
    assert change.notice == h.NotifyBrokerRoleChanged(
        master_address="10.0.0.2:10911", master_broker_id=2, sync_state_set_epoch=8, master_epoch=4
    )
    assert SyncStateSet.decode(change.sync_state_set) == SyncStateSet([2], 8)


WIDE = msgspec.structs.replace(GROUP, master=None, sync_state_set=frozenset({1, 2, 3}))


@pytest.mark.parametrize(
    ("brokers", "best"),
    [
        ({1: LiveBroker(2, 900), 2: LiveBroker(3, 5), 3: LiveBroker(3, 4)}, 2),
        # RocketMQ takes the difference of these offsets in 32 bits, and elects broker 1.
        ({1: LiveBroker(3, 1), 2: LiveBroker(3, 1 + 2**31 + 7), 3: LiveBroker(3, 2)}, 2),
        ({1: LiveBroker(3, 5, 5, 9), 2: LiveBroker(3, 5, 5, 8), 3: LiveBroker(3, 5, 5, 9)}, 2),
        ({2: LiveBroker(3, 5), 3: LiveBroker(3, 5)}, 2),
    ],
    ids=["greater epoch", "greater offset in 64 bits", "smaller priority", "smaller id"],
)
def test_the_best_candidate_has(brokers: dict[int, LiveBroker], best: int) -> None:
    decision = elect(WIDE, 3, alive=brokers)

    assert decision.reply.fields.master_broker_id == best


def test_the_controller_records_that_there_is_no_master() -> None:
    decision = elect(GROUP, alive=living(3))

    assert code(decision) == R.CONTROLLER_MASTER_NOT_AVAILABLE
    assert decision.group == msgspec.structs.replace(GROUP, master=None, master_epoch=4), "the set stays"
    assert decision.role_change is None


def test_a_designated_member_replaces_a_living_master() -> None:
    decision = elect(GROUP, 2, alive=ALL, designate=True)

    assert decision.reply.fields.master_broker_id == 2
    assert code(elect(GROUP, 1, alive=ALL, designate=True)) == R.CONTROLLER_MASTER_STILL_EXIST


def test_a_designated_broker_outside_the_set_is_refused() -> None:
    decision = elect(GROUP, 3, alive=ALL, designate=True)

    assert (code(decision), decision.group) == (R.CONTROLLER_ELECT_MASTER_FAILED, GROUP)
    assert code(elect(GROUP, 2, alive=living(1), designate=True)) == R.CONTROLLER_ELECT_MASTER_FAILED


def test_a_broker_outside_the_set_is_elected_only_where_that_is_allowed() -> None:
    decision = elect(GROUP, 3, alive=living(3), unclean=True)

    assert decision.reply.fields.master_broker_id == 3
    assert elect(GROUP, 3, alive=living(2, 3), unclean=True).reply.fields.master_broker_id == 2


def test_an_unknown_group_or_broker_elects_nobody() -> None:
    assert code(elect(None, 1, alive=ALL)) == R.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert code(elect(BrokerGroup("C", 2), 1, alive=ALL)) == R.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert code(elect(GROUP, 9, alive=ALL)) == R.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


# Sync state set


def alter(
    group: BrokerGroup | None,
    members: list[int],
    *,
    master: int = 1,
    epoch: int = 3,
    set_epoch: int = 7,
    alive: tuple[int, ...] = (1, 2, 3),
) -> Decision[h.SyncStateSetAltered]:
    request = h.AlterSyncStateSet(broker_name=NAME, master_broker_id=master, master_epoch=epoch)
    return state.alter_sync_state_set(group, request, SyncStateSet(members, set_epoch), living(*alive))


def test_the_master_changes_the_set() -> None:
    decision = alter(GROUP, [3, 1, 2])

    assert decision.group == msgspec.structs.replace(GROUP, sync_state_set=frozenset({1, 2, 3}), sync_state_set_epoch=8)
    assert decision.reply.fields.new_sync_state_set_epoch == 8
    assert SyncStateSet.decode(decision.reply.body) == SyncStateSet([1, 2, 3], 8)


@pytest.mark.parametrize(
    ("decision", "code_wanted", "remark"),
    [
        (alter(None, [1]), R.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "Broker metadata is not existed"),
        (alter(GROUP, [2, 1]), R.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "equal with oldSyncStateSet"),
        (alter(GROUP, [1], master=2), R.CONTROLLER_INVALID_MASTER, "current leader is:{1}, not {2}"),
        (alter(WIDE, [1]), R.CONTROLLER_INVALID_MASTER, "current leader is:{null}, not {1}"),
        (alter(GROUP, [1], epoch=2), R.CONTROLLER_FENCED_MASTER_EPOCH, "current master epoch is:{3}, not {2}"),
        (alter(GROUP, [1], set_epoch=6), R.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, "epoch is:{7}, not {6}"),
        (alter(GROUP, [1, 9]), R.CONTROLLER_INVALID_REPLICAS, "the replicas {9} don't exist"),
        (alter(GROUP, [1, 3], alive=(1, 2)), R.CONTROLLER_BROKER_NOT_ALIVE, "the replicas {3} don't alive"),
        (alter(GROUP, [2, 3]), R.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "don't contains origin leader {1}"),
        (alter(GROUP, []), R.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "don't contains origin leader {1}"),
    ],
    ids=[
        *("no group", "unchanged", "not the master", "no master", "old master epoch", "old set epoch"),
        *("unknown id", "dead broker", "without the master", "empty"),
    ],
)
def test_a_change_of_the_set_is_refused(decision: Decision[h.SyncStateSetAltered], code_wanted: R, remark: str) -> None:
    assert code(decision) == code_wanted
    assert remark in (decision.reply.remark or "")
    assert decision.group in (None, GROUP, WIDE)


# Removal


def clean(
    group: BrokerGroup | None, ids: str | None = None, *, alive: tuple[int, ...] = (), living_too: bool = False
) -> Decision[Any]:
    request = h.CleanBrokerData(
        broker_name=NAME, cluster_name="C", broker_controller_ids_to_clean=ids, is_clean_living_broker=living_too
    )
    return state.clean_broker_data(group, request, living(*alive))


def test_a_dead_broker_is_removed() -> None:
    group = clean(GROUP, "3", alive=(1, 2)).group

    assert group == msgspec.structs.replace(GROUP, replicas={1: GROUP.replicas[1], 2: GROUP.replicas[2]})


def test_a_removed_member_leaves_the_set_and_a_removed_master_its_office() -> None:
    group = clean(GROUP, "1", alive=(2, 3)).group

    assert group is not None
    assert (group.master, group.master_epoch) == (None, 4)
    assert (set(group.sync_state_set), group.sync_state_set_epoch) == ({2}, 8)


def test_living_brokers_are_removed_only_on_request() -> None:
    decision = clean(GROUP, "3", alive=(3,))

    assert (code(decision), decision.reply.remark) == (
        R.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
        "Broker [broker-a,  3] is still alive, clean up failure",
    )
    assert code(clean(GROUP, "3", alive=(3,), living_too=True)) == R.SUCCESS
    # RocketMQ removes the whole group here.
    assert set((clean(GROUP, "3", alive=(3,), living_too=True).group or GROUP).replicas) == {1, 2}


def test_a_group_with_a_master_is_removed_only_on_request() -> None:
    assert code(clean(GROUP)) == R.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert code(clean(WIDE, alive=(2,))) == R.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert code(clean(WIDE)) == R.SUCCESS


def test_a_group_that_comes_back_goes_on_with_its_epochs_and_ids() -> None:
    removed = clean(GROUP, living_too=True, alive=(1, 2, 3)).group

    assert removed is not None
    assert not removed.exists
    assert (removed.next_broker_id, removed.master, removed.master_epoch) == (4, None, 4)
    assert state.replica_info(removed).code == R.CONTROLLER_BROKER_METADATA_NOT_EXIST
    assert code(apply(removed, 1)) == R.CONTROLLER_BROKER_ID_INVALID
    again = apply(removed, 4, cluster="D").group
    assert again is not None
    assert again.cluster == "D"
    assert elect(again, 4, alive={}).reply.fields.master_epoch == 5


def test_the_whole_sync_state_set_is_not_removed_while_others_stay() -> None:
    decision = clean(GROUP, "1;2")

    assert (code(decision), decision.group) == (R.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, GROUP)
    assert "accept that loss" in (decision.reply.remark or "")


@pytest.mark.parametrize("ids", ["x", "1;;2", "1;two"])
def test_malformed_ids_are_refused(ids: str) -> None:
    decision = clean(GROUP, ids)

    assert code(decision) == R.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert "according to the format" in (decision.reply.remark or "")


def test_removing_what_is_unknown() -> None:
    assert code(clean(None, "1")) == R.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert clean(GROUP, "9").group is GROUP


# Queries


def test_the_master_and_the_set_of_a_group_are_told() -> None:
    reply = state.replica_info(GROUP)

    assert reply.fields == h.ReplicaInfo(master_broker_id=1, master_address="10.0.0.1:10911", master_epoch=3)
    assert SyncStateSet.decode(reply.body) == SyncStateSet([1, 2], 7)
    assert state.replica_info(None).code == R.CONTROLLER_BROKER_METADATA_NOT_EXIST


def test_replicas_are_listed_with_their_liveness() -> None:
    removed = BrokerGroup("C", 4)
    info = state.sync_state_data({NAME: (GROUP, living(1, 3)), "gone": (removed, {})}).replicas_info_table

    assert list(info) == [NAME]
    assert [(it.broker_id, it.alive) for it in info[NAME].in_sync_replicas] == [(1, True), (2, False)]
    assert [(it.broker_id, it.alive) for it in info[NAME].not_in_sync_replicas] == [(3, True)]
    assert (info[NAME].master_broker_id, info[NAME].master_address) == (1, "10.0.0.1:10911")


def test_a_group_survives_its_encoding() -> None:
    assert msgspec.json.decode(msgspec.json.encode(GROUP), type=BrokerGroup) == GROUP
    assert msgspec.json.decode(msgspec.json.encode(WIDE), type=BrokerGroup) == WIDE
