"""The sync state set: what a master may acknowledge, and which changes it proposes."""

from kerolox.replication.auto_switch.sync_state_set import SetLimits, SyncStateSet

LIMITS = SetLimits(members_min=2, lag_seconds_max=15)


def master(*members: int, epoch_start: int = 100, now: float = 0.0) -> SyncStateSet:
    """Broker 1 as master, with the given set, all of whose other members are connected and complete."""
    sync_state_set = SyncStateSet(1, LIMITS, epoch_start=epoch_start, now=now)
    sync_state_set.decided(frozenset({1, *members}), 5)
    for member in members:
        sync_state_set.connected(member, now)
        report(sync_state_set, member, epoch_start, end=epoch_start, now=now)
    return sync_state_set


def report(
    of: SyncStateSet, broker_id: int, end_offset: int, *, end: int, now: float = 0.0, sent: tuple[int, float] = (0, 0.0)
) -> bool:
    return of.reported(broker_id, end_offset, sent=sent, end=end, now=now)


def test_a_message_is_confirmed_when_every_member_holds_it() -> None:
    group = master(2, 3)
    assert report(group, 2, 200, end=200)
    assert group.confirm(200) == 100
    assert report(group, 3, 150, end=200)
    assert group.confirm(200) == 150
    assert report(group, 3, 200, end=200)
    assert group.confirm(180) == 180


def test_a_lost_connection_does_not_shrink_the_set_before_the_controller_agrees() -> None:
    """RocketMQ 5.4.0 and 5.5.0 answer SEND_OK here."""
    group = master(2, 3)
    group.disconnected(3)
    report(group, 2, 200, end=200)
    assert group.confirm(200) == 100
    wanted = group.proposal(0)
    assert wanted == frozenset({1, 2})
    group.propose(wanted)
    assert group.confirm(200) == 100
    group.decided(frozenset({1, 2}), 6)
    assert group.confirm(200) == 200


def test_a_member_that_is_proposed_must_hold_messages_while_the_answer_is_open() -> None:
    """The controller may have stored the larger set, and its answer may be lost (RocketMQ 5663)."""
    group = master(2)
    group.connected(3, 0)
    report(group, 3, 100, end=100)
    wanted = group.proposal(0)
    assert wanted == frozenset({1, 2, 3})
    group.propose(wanted)
    report(group, 2, 200, end=200)
    assert group.confirm(200) == 100
    assert group.proposal(0) is None
    report(group, 3, 200, end=200)
    assert group.confirm(200) == 200


def test_a_refused_proposal_ends_with_the_set_of_the_controller() -> None:
    group = master(2, 3)
    group.propose(frozenset({1, 2}))
    group.decided(frozenset({1, 2, 3}), 5)
    assert (group.members, group.proposed) == (frozenset({1, 2, 3}), None)


def test_an_outdated_answer_changes_nothing() -> None:
    group = master(2)
    group.propose(frozenset({1, 2, 3}))
    group.decided(frozenset({1, 3}), 4)
    assert group.required == frozenset({1, 2, 3})
    assert group.version == 5


def test_a_report_beyond_the_log_of_the_master_is_not_believed() -> None:
    """RocketMQ 5.5.0 takes a replica that reports 10^12 into the set."""
    group = master(2)
    group.connected(3, 0)
    assert not report(group, 3, 10**12, end=200)
    assert not report(group, 3, -1, end=200)
    assert not report(group, 9, 100, end=200)
    assert group.proposal(0) is None


def test_a_replica_enters_when_it_holds_all_that_may_be_acknowledged() -> None:
    group = master(2)
    report(group, 2, 200, end=200)
    group.confirm(200)
    group.connected(3, 0)
    report(group, 3, 199, end=200)
    assert group.proposal(0) is None
    report(group, 3, 200, end=220, sent=(210, 0.0))
    assert group.proposal(0) is None
    report(group, 3, 210, end=220, sent=(210, 0.0))
    assert group.proposal(0) == frozenset({1, 2, 3})


def test_a_replica_that_lacks_the_end_of_the_epoch_before_does_not_enter() -> None:
    group = SyncStateSet(1, LIMITS, epoch_start=100, now=0)
    group.connected(2, 0)
    report(group, 2, 99, end=100)
    assert group.proposal(0) is None
    report(group, 2, 100, end=100)
    assert group.proposal(0) == frozenset({1, 2})


def test_learners_and_lost_replicas_do_not_enter() -> None:
    group = master(2)
    group.connected(3, 0, is_learner=True)
    report(group, 3, 100, end=100)
    group.connected(4, 0)
    report(group, 4, 100, end=100)
    group.disconnected(4)
    assert group.proposal(0) is None


def test_a_replica_that_connects_again_must_report_again() -> None:
    """Its disk may have been emptied meanwhile."""
    group = master(2)
    report(group, 2, 200, end=200)
    group.connected(2, 0)
    assert group.confirm(300) == 100


def test_a_slow_member_is_proposed_to_leave_after_the_limit() -> None:
    group = master(2, 3)
    report(group, 2, 500, end=500, now=14)
    report(group, 3, 300, end=500, now=14)
    assert group.proposal(15) is None
    assert group.proposal(15.1) == frozenset({1, 2})
    # It had everything that had been written when data was sent to it at 10 s.
    report(group, 3, 400, end=500, now=14, sent=(400, 10.0))
    assert group.proposal(25) is None
    assert group.proposal(25.1) == frozenset({1, 2})


def test_a_member_that_never_connects_is_proposed_to_leave_after_the_limit() -> None:
    group = SyncStateSet(1, LIMITS, epoch_start=100, now=50)
    group.decided(frozenset({1, 2}), 5)
    assert group.proposal(65) is None
    assert group.proposal(65.1) == frozenset({1})


def test_a_master_with_too_few_members_refuses_sends() -> None:
    assert not SyncStateSet(1, LIMITS, epoch_start=0, now=0).is_large_enough
    group = master(2)
    assert group.is_large_enough
    group.propose(frozenset({1}))
    assert group.is_large_enough
    group.decided(frozenset({1}), 6)
    assert not group.is_large_enough


def test_the_confirm_offset_never_goes_back() -> None:
    group = master(2)
    report(group, 2, 200, end=200)
    assert group.confirm(200) == 200
    group.connected(3, 0)
    group.propose(frozenset({1, 2, 3}))
    assert group.confirm(300) == 200
