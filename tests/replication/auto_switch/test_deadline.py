"""A master that has not heard of its group for too long stops."""

from pathlib import Path

import pytest

from kerolox.replication.auto_switch.copies import SyncStateCopies, Term
from kerolox.replication.auto_switch.deadline import MasterDeadline
from kerolox.replication.auto_switch.sync_state_set import SetLimits, SyncStateSet
from kerolox.replication.config import ReplicationConfig
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.service import Supervisor
from kerolox.store.errors import NotEnoughReplicas
from kerolox.store.store import Store, StoreHooks
from tests.replication.nodes import store_config
from tests.store.stores import draft


async def test_an_answer_that_is_read_after_a_freeze_does_not_extend_the_deadline() -> None:
    clock = ManualClock()
    deadline = MasterDeadline(clock, 10)
    sent = clock.monotonic()
    await clock.advance(10)
    assert deadline.may_acknowledge()
    await clock.advance(1)
    deadline.confirm(sent)
    assert deadline.has_passed()
    deadline.confirm(clock.monotonic())
    assert not deadline.has_passed()


async def test_a_master_that_wakes_after_its_deadline_refuses_sends_and_acknowledges_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    deadline = MasterDeadline(clock, 10)
    copies = SyncStateCopies(ReplicationConfig(), clock)
    store = Store(store_config(tmp_path), hooks=StoreHooks(copies=copies))
    async with Supervisor(store):
        members = SyncStateSet(1, SetLimits(1), epoch_start=0, now=clock.monotonic())
        copies.begin(Term(members, lambda: store.held_offset, deadline.may_acknowledge))
        await store.put(draft(b"before"))
        end = store.log.end_offset
        members.decided(frozenset({1, 2}), 2)
        members.connected(2, clock.monotonic())
        store.append([draft(b"written, but not copied before the freeze")])
        await clock.advance(11)
        # A report that had waited in the socket.
        assert copies.reported(2, store.log.end_offset, sent=(0, 0.0), end=store.log.end_offset)
        assert copies.held_offset() == end
        with pytest.raises(NotEnoughReplicas, match="not heard of the controller"):
            await store.put(draft(b"after"))
