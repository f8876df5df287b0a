"""Progress of groups, and changes of their offsets."""

from pathlib import Path

import pytest

from kerolox.admin import AdminClient, GroupSummary, Progress, QueueProgress
from kerolox.admin.offsets import END, Rollback
from kerolox.errors import ConsumerNotOnline, GroupNotFound
from kerolox.remoting.router import Incoming, handles
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers.offsets import ResetOffset
from kerolox.wire.reply import Reply
from tests.admin.clients import GROUP, QUEUE, TOPIC, AssigningConsumer, consuming, prepare
from tests.client.brokers import scripted_cluster
from tests.client.sessions import until
from tests.remoting.support import serving

OTHER = MessageQueue("broker-a", 1, TOPIC)


async def test_progress_is_returned_by_queue_and_client(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 5)
    await admin.offsets.commit(GROUP, QUEUE, 2)
    owner = AssigningConsumer(TOPIC)
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
    await prepare(admin, cluster, 1)

    assert (await admin.offsets.progress(GROUP)).queues == {}
    assert await admin.offsets.committed(GROUP, QUEUE) is None


async def test_summaries_are_sorted_by_lag(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 5)
    async with consuming(cluster, group="away"):
        pass
    await admin.offsets.commit(GROUP, QUEUE, 2)

    async with consuming(cluster):
        summaries = await admin.offsets.summaries()

    assert summaries == [
        GroupSummary(GROUP, 1, "CONSUME_PASSIVELY", "CLUSTERING", lag=3),
        GroupSummary("away", lag=0),
    ]


async def test_broker_progress_contains_all_groups(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 5)
    await admin.offsets.commit(GROUP, QUEUE, 1)

    stats = await admin.offsets.broker_progress("broker-a")

    assert stats.total_diff == 4
    (of_group,) = next(groups[GROUP] for groups in stats.consume_stats_list if GROUP in groups)
    assert of_group.offset_table[QUEUE].consumer_offset == 1
    assert (await admin.offsets.broker_progress("broker-a", only_ordered=True)).total_diff == 0


async def test_time_spans_contain_the_last_consumed_timestamp(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 2)
    await admin.offsets.commit(GROUP, QUEUE, 1)

    span, _ = await admin.offsets.time_spans(GROUP, TOPIC)

    first = await admin.messages.at(QUEUE, 0)
    assert span.message_queue == QUEUE
    assert span.min_time_stamp == span.consume_time_stamp == first.stored_millis


async def test_a_group_continues_at_a_committed_offset(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)

    await admin.offsets.commit(GROUP, QUEUE, 2)

    assert await admin.offsets.committed(GROUP, QUEUE) == 2
    with pytest.raises(GroupNotFound):
        await admin.offsets.commit("nobody", QUEUE, 2)


async def test_commit_works_while_a_reset_is_pending(admin: AdminClient, cluster: Cluster) -> None:
    """The broker responds SUCCESS to a commit that it ignores while a reset is pending."""
    await prepare(admin, cluster, 3)
    await admin.offsets.skip_accumulated(GROUP, TOPIC)

    await admin.offsets.commit(GROUP, QUEUE, 1)

    assert await admin.offsets.committed(GROUP, QUEUE) == 1


@pytest.mark.parametrize("is_online", [None, True, False])
async def test_an_offline_group_is_reset_to_a_timestamp(
    admin: AdminClient, cluster: Cluster, is_online: bool | None
) -> None:
    """Newer brokers keep the reset until the group is online, so the online way works too."""
    await prepare(admin, cluster, 3)
    await admin.offsets.commit(GROUP, QUEUE, 3)

    offsets = await admin.offsets.reset(GROUP, TOPIC, 0, is_online=is_online)

    assert offsets == {QUEUE: 0, OTHER: 0}
    assert await admin.offsets.committed(GROUP, QUEUE) == 0


async def test_older_brokers_reset_through_the_clients(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)
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


async def test_an_unforced_reset_only_moves_back(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)
    await admin.offsets.commit(GROUP, QUEUE, 1)

    offsets = await admin.offsets.reset(GROUP, TOPIC, 2**60, is_forced=False, is_online=False)

    assert offsets[QUEUE] == 1
    assert await admin.offsets.committed(GROUP, QUEUE) == 1


async def test_reset_queue_changes_only_that_queue(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)
    await admin.offsets.commit(GROUP, OTHER, 0)

    await admin.offsets.reset_queue(GROUP, QUEUE, 2)

    assert [await admin.offsets.committed(GROUP, queue) for queue in (QUEUE, OTHER)] == [2, 0]


@pytest.mark.parametrize("topic", [TOPIC, None])
async def test_clone_copies_the_offsets_of_a_group(admin: AdminClient, cluster: Cluster, topic: str | None) -> None:
    await prepare(admin, cluster, 3)
    await admin.groups.create("heirs")
    await admin.offsets.commit(GROUP, QUEUE, 2)

    await admin.offsets.clone(GROUP, "heirs", topic)

    assert await admin.offsets.committed("heirs", QUEUE) == 2


async def test_roll_back_returns_old_and_new_offsets(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 5)

    of_nobody = await admin.offsets.roll_back(GROUP, TOPIC, END)
    back = await admin.offsets.roll_back(GROUP, TOPIC, 0, is_forced=False)
    not_forward = await admin.offsets.roll_back(GROUP, TOPIC, END, is_forced=False)

    assert of_nobody == [Rollback(QUEUE, 5, 0, 5, 5), Rollback(OTHER, 0, 0, 0, 0)]
    assert back[0] == Rollback(QUEUE, 5, 5, 0, 0)
    assert not_forward[0] == Rollback(QUEUE, 5, 0, 5, 0)
    assert await admin.offsets.committed(GROUP, QUEUE) == 0


class RecordingBroker:
    """A broker that records the language of reset requests."""

    def __init__(self) -> None:
        self.languages: list[str | int | None] = []

    @handles(ResetOffset)
    def reset(self, request: Incoming[ResetOffset]) -> Reply[Empty]:
        self.languages.append(request.language)
        return Reply()


async def test_is_cpp_sets_the_language_of_the_request(tmp_path: Path) -> None:
    broker = RecordingBroker()
    async with scripted_cluster(tmp_path) as scripted, serving(broker) as server:
        await scripted.list_broker("broker-a", server.address, TOPIC, "bills")
        async with AdminClient(namesrv_addr=scripted.namesrv_addr) as admin:
            await admin.offsets.reset(GROUP, TOPIC, 0, is_online=True)
            await admin.offsets.reset(GROUP, TOPIC, 0, is_online=True, is_cpp=True)

    assert broker.languages == ["PYTHON", "CPP"]


OTHER = MessageQueue("broker-a", 1, TOPIC)


def test_the_lag_is_summed_by_topic_and_by_client() -> None:
    retry = MessageQueue("broker-a", 0, "%RETRY%shop")
    progress = Progress(
        GROUP,
        {
            QUEUE: QueueProgress(10, 4, 5, 0, "one"),
            OTHER: QueueProgress(3, 3, 3, 0, "two"),
            retry: QueueProgress(2, 1, None, 0),
        },
        0.0,
    )

    assert progress.lag == 7
    assert progress.by_topic == {TOPIC: 6, "%RETRY%shop": 1}
    assert progress.by_client == {"one": 6, "two": 0, None: 1}
