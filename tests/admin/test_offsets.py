"""How far groups are, and where they are told to go on."""

from pathlib import Path

import pytest

from kerolox.admin import AdminClient, GroupSummary
from kerolox.admin.offsets import END
from kerolox.admin.progress import Rollback
from kerolox.errors import ConsumerNotOnline, GroupNotFound
from kerolox.remoting.routes import Incoming, handles
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers.offsets import ResetOffset
from kerolox.wire.reply import Reply
from tests.admin.clients import GROUP, QUEUE, TOPIC, Owner, consuming, prepared
from tests.client.brokers import staged
from tests.client.sessions import until
from tests.remoting.support import serving

OTHER = MessageQueue("broker-a", 1, TOPIC)


async def test_the_progress_of_a_group_is_told_by_queue_and_client(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 5)
    await admin.offsets.commit(GROUP, QUEUE, 2)
    owner = Owner(TOPIC)
    owner.offsets = {QUEUE: 2}

    async with consuming(cluster, consumer=owner) as (session, _):
        progress = await admin.offsets.progress(GROUP, has_clients=True)
    away = await admin.offsets.progress(GROUP, TOPIC, has_clients=True)

    assert {queue: one.lag for queue, one in progress.queues.items()} == {QUEUE: 3, OTHER: 0}
    assert (progress.queues[QUEUE].client_id, progress.queues[OTHER].client_id) == (session.client_id, None)
    assert progress.by_client == {session.client_id: 3, None: 0}
    assert progress.queues[QUEUE].last_millis > 0
    assert (away.lag, away.by_client) == (3, {None: 3})


async def test_a_group_that_never_committed_has_no_progress(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 1)

    assert (await admin.offsets.progress(GROUP)).queues == {}
    assert await admin.offsets.committed(GROUP, QUEUE) is None


async def test_all_groups_are_summed_up_the_most_behind_first(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 5)
    async with consuming(cluster, group="away"):
        pass
    await admin.offsets.commit(GROUP, QUEUE, 2)

    async with consuming(cluster):
        summaries = await admin.offsets.summaries()

    assert summaries == [
        GroupSummary(GROUP, 1, "CONSUME_PASSIVELY", "CLUSTERING", lag=3),
        GroupSummary("away", lag=0),
    ]


async def test_a_broker_tells_of_all_its_groups(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 5)
    await admin.offsets.commit(GROUP, QUEUE, 1)

    stats = await admin.offsets.broker_progress("broker-a")

    assert stats.total_diff == 4
    (of_group,) = next(groups[GROUP] for groups in stats.consume_stats_list if GROUP in groups)
    assert of_group.offset_table[QUEUE].consumer_offset == 1
    assert (await admin.offsets.broker_progress("broker-a", only_ordered=True)).total_diff == 0


async def test_time_spans_say_up_to_when_a_group_has_consumed(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 2)
    await admin.offsets.commit(GROUP, QUEUE, 1)

    span, _ = await admin.offsets.time_spans(GROUP, TOPIC)

    first = await admin.messages.at(QUEUE, 0)
    assert span.message_queue == QUEUE
    assert span.min_time_stamp == span.consume_time_stamp == first.stored_millis


async def test_a_committed_offset_is_where_the_group_goes_on(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)

    await admin.offsets.commit(GROUP, QUEUE, 2)

    assert await admin.offsets.committed(GROUP, QUEUE) == 2
    with pytest.raises(GroupNotFound):
        await admin.offsets.commit("nobody", QUEUE, 2)


async def test_an_offset_is_set_although_a_reset_is_still_to_be_told(admin: AdminClient, cluster: Cluster) -> None:
    """The broker says SUCCESS to a commit that it does not take then."""
    await prepared(admin, cluster, 3)
    await admin.offsets.skip_accumulated(GROUP, TOPIC)

    await admin.offsets.commit(GROUP, QUEUE, 1)

    assert await admin.offsets.committed(GROUP, QUEUE) == 1


@pytest.mark.parametrize("is_online", [None, True, False])
async def test_a_group_is_set_to_a_time_while_it_is_away(
    admin: AdminClient, cluster: Cluster, is_online: bool | None
) -> None:
    """Brokers of today keep the reset for when the group comes, so that also the online way does it."""
    await prepared(admin, cluster, 3)
    await admin.offsets.commit(GROUP, QUEUE, 3)

    offsets = await admin.offsets.reset(GROUP, TOPIC, 0, is_online=is_online)

    assert offsets == {QUEUE: 0, OTHER: 0}
    assert await admin.offsets.committed(GROUP, QUEUE) == 0


async def test_clients_are_told_by_brokers_that_leave_it_to_them(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)
    await admin.configuration.update_broker({"useServerSideResetOffset": "false"})
    for queue in (QUEUE, OTHER):
        await admin.offsets.commit(GROUP, queue, 0)

    async with consuming(cluster) as (_, consumer):
        assert await admin.offsets.skip_accumulated(GROUP, TOPIC) == {QUEUE: 3, OTHER: 0}
        await until(lambda: consumer.resets)
    assert consumer.resets == [(TOPIC, {QUEUE: 3, OTHER: 0})]
    # Nobody is there any more.
    with pytest.raises(ConsumerNotOnline):
        await admin.offsets.reset(GROUP, TOPIC, 0, is_online=True)
    assert await admin.offsets.skip_accumulated(GROUP, TOPIC) == {QUEUE: 3, OTHER: 0}
    assert await admin.offsets.committed(GROUP, QUEUE) == 3


async def test_who_is_not_forced_goes_back_only(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)
    await admin.offsets.commit(GROUP, QUEUE, 1)

    offsets = await admin.offsets.reset(GROUP, TOPIC, 2**60, is_forced=False, is_online=False)

    assert offsets[QUEUE] == 1
    assert await admin.offsets.committed(GROUP, QUEUE) == 1


async def test_one_queue_is_set_and_the_others_stay(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)
    await admin.offsets.commit(GROUP, OTHER, 0)

    await admin.offsets.reset_queue(GROUP, QUEUE, 2)

    assert [await admin.offsets.committed(GROUP, queue) for queue in (QUEUE, OTHER)] == [2, 0]


@pytest.mark.parametrize("topic", [TOPIC, None])
async def test_a_group_goes_on_where_another_is(admin: AdminClient, cluster: Cluster, topic: str | None) -> None:
    await prepared(admin, cluster, 3)
    await admin.groups.create("heirs")
    await admin.offsets.commit(GROUP, QUEUE, 2)

    await admin.offsets.clone(GROUP, "heirs", topic)

    assert await admin.offsets.committed("heirs", QUEUE) == 2


async def test_a_group_that_is_away_is_rolled_back_and_the_way_is_told(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 5)

    of_nobody = await admin.offsets.roll_back(GROUP, TOPIC, END)
    back = await admin.offsets.roll_back(GROUP, TOPIC, 0, is_forced=False)
    not_forward = await admin.offsets.roll_back(GROUP, TOPIC, END, is_forced=False)

    assert of_nobody == [Rollback(QUEUE, 5, 0, 5, 5), Rollback(OTHER, 0, 0, 0, 0)]
    assert back[0] == Rollback(QUEUE, 5, 5, 0, 0)
    assert not_forward[0] == Rollback(QUEUE, 5, 0, 5, 0)
    assert await admin.offsets.committed(GROUP, QUEUE) == 0


class Resetting:
    """A broker that notes for whom it is asked to reset."""

    def __init__(self) -> None:
        self.languages: list[str | int | None] = []

    @handles(ResetOffset)
    def reset(self, request: Incoming[ResetOffset]) -> Reply[Empty]:
        self.languages.append(request.language)
        return Reply()


async def test_a_broker_is_told_that_clients_are_in_cpp(tmp_path: Path) -> None:
    broker = Resetting()
    async with staged(tmp_path) as stage, serving(broker) as server:
        await stage.list_broker("broker-a", server.address, TOPIC, "bills")
        async with AdminClient(namesrv_addr=stage.namesrv_addr) as admin:
            await admin.offsets.reset(GROUP, TOPIC, 0, is_online=True)
            await admin.offsets.reset(GROUP, TOPIC, 0, is_online=True, is_cpp=True)

    assert broker.languages == ["PYTHON", "CPP"]
