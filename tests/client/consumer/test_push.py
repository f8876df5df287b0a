"""The push consumer against Kerolox brokers."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Unpack

import pytest

from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.group.rebalance import MessageModel
from kerolox.client.consumer.group.subscriptions import Sql92
from kerolox.client.consumer.handle.invoke import Handler
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.consumer.push import PushConsumer
from kerolox.client.consumer.settings import PushKeywords
from kerolox.client.errors import GroupTaken, WrongState
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.errors import ConfigurationError, RemotingError
from kerolox.testing import Cluster
from tests.client.consumer.consumers import RecordingHandler, numbered, sender, settled
from tests.client.sessions import options, until


def consumer(cluster: Cluster, handler: Handler, **keywords: Unpack[PushKeywords]) -> PushConsumer:
    merged: PushKeywords = {
        "namesrv_addr": cluster.namesrv_addr,
        "client_ip": "127.0.0.1",
        "consume_from": ConsumeFrom.FIRST_OFFSET,
        **keywords,
    }
    return PushConsumer("group", handler, topics="orders", **merged)


async def test_messages_are_consumed_and_committed_at_close(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(50))
        recorder = RecordingHandler()

        async with consumer(cluster, recorder):
            await until(lambda: len(recorder.messages) == 50)

        assert sorted(recorder.bodies) == sorted(numbered(50))
        assert await brokers.committed("group", "orders") == 50


async def test_a_new_message_is_delivered_at_once(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"first")
        recorder = RecordingHandler()
        async with consumer(cluster, recorder):
            await until(lambda: recorder.bodies == [b"first"])

            await brokers.send("orders", b"second")

            await until(lambda: recorder.bodies == [b"first", b"second"])
            assert recorder.messages[1].topic == "orders"
            assert recorder.messages[1].queue_offset == 1


async def test_a_plain_function_is_called_in_several_threads(cluster: Cluster) -> None:
    together = threading.Barrier(4, timeout=20)
    names: set[str] = set()

    def handle(messages: list[Received]) -> None:
        together.wait()
        names.add(threading.current_thread().name)

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(4))
        async with consumer(cluster, handle):
            await until(lambda: len(names) == 4)

        assert threading.current_thread().name not in names
        assert await brokers.committed("group", "orders") == 4


async def test_coroutine_handlers_run_concurrently(cluster: Cluster) -> None:
    waiting: list[Received] = []
    go_on = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        waiting.extend(messages)
        await go_on.wait()

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(10))
        async with consumer(cluster, handle, consume_thread_max=5):
            await until(lambda: len(waiting) == 5)
            await asyncio.sleep(0)
            assert len(waiting) == 5
            go_on.set()
            await until(lambda: len(waiting) == 10)


async def test_a_handler_call_gets_up_to_the_batch_size(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(20))
        recorder = RecordingHandler()

        async with consumer(cluster, recorder, consume_message_batch_max_size=8):
            await until(lambda: len(recorder.messages) == 20)

    assert max(map(len, recorder.calls)) == 8


# Failures


async def test_a_failed_message_is_retried_and_does_not_block_others(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"bad", b"good")
        calls: list[tuple[bytes, int, str]] = []

        async def handle(messages: list[Received]) -> Consumed | None:
            (message,) = messages
            calls.append((message.body, message.reconsume_times, message.topic))
            # The shortest delay level is one second.
            return Consumed.later(delay_level=1) if calls.count(calls[-1]) and len(calls) == 1 else None

        async with consumer(cluster, handle):
            await until(lambda: len(calls) == 3)

        assert calls[:2] == [(b"bad", 0, "orders"), (b"good", 0, "orders")]
        assert calls[2] == (b"bad", 1, "orders")
        assert await brokers.committed("group", "orders") == 2
        assert await brokers.committed("group", "%RETRY%group") == 1


async def test_an_exception_in_the_handler_causes_a_retry(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"bad")

        async with consumer(cluster, RecordingHandler(ValueError("broken"))) as push:
            await until(lambda: push.statistics.of("orders").failed == 1)

        assert await brokers.committed("group", "orders") == 1
        # It is in the schedule topic for ten seconds before it goes to the retry topic.
        assert await brokers.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1
    assert "broken" in caplog.text


async def test_a_handler_may_send_a_message_to_the_dead_letter_queue(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"hopeless")

        async with consumer(cluster, RecordingHandler(Consumed.later(delay_level=-1))) as push:
            await until(lambda: push.statistics.of("orders").failed == 1)

        assert await brokers.max_offset("%DLQ%group", 0) == 1


async def test_a_handler_may_report_that_the_first_of_a_batch_succeeded(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(4))

        recorder = RecordingHandler(Consumed.later(delay_level=-1, succeeded=3))
        async with consumer(cluster, recorder, consume_message_batch_max_size=4) as push:
            await until(lambda: push.statistics.of("orders").failed)

        assert await brokers.max_offset("%DLQ%group", 0) == 1
        assert await brokers.committed("group", "orders") == 4


async def test_an_undecodable_body_becomes_a_dead_letter_and_does_not_block_others(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"not zlib at all", sys_flag=1)
        await brokers.send("orders", b"good")
        recorder = RecordingHandler()
        async with consumer(cluster, recorder):
            await until(lambda: recorder.bodies == [b"good"])
            for _ in range(1000):
                if await brokers.max_offset("%DLQ%group"):
                    break

        assert await brokers.max_offset("%DLQ%group") == 1
        assert await brokers.committed("group", "orders") == 2
    assert "skipped message" in caplog.text


async def test_an_invalid_handler_result_is_a_failure(cluster: Cluster) -> None:
    async def handle(messages: list[Received]) -> bool:
        return True

    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        async with consumer(cluster, handle) as push:  # type: ignore[arg-type]
            await until(lambda: push.statistics.of("orders").failed == 1)


# Where to begin


async def test_a_new_group_reads_a_young_topic_from_its_first_offset(cluster: Cluster) -> None:
    """Brokers return offset 0 for an unknown group while the queue still has its first message in memory."""
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"early")
        recorder = RecordingHandler()
        async with consumer(cluster, recorder, consume_from=ConsumeFrom.LAST_OFFSET):
            await until(lambda: recorder.bodies == [b"early"])


async def test_a_group_continues_at_its_committed_offset(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster, (first := RecordingHandler())):
            await until(lambda: len(first.messages) == 5)
        await brokers.send("orders", *numbered(5, start=5))

        async with consumer(cluster, (second := RecordingHandler())):
            await until(lambda: len(second.messages) == 5)

        assert second.bodies == numbered(5, start=5)


async def test_a_push_consumer_continues_where_the_broker_says_if_its_offset_is_out_of_range(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        async with consumer(cluster, (first := RecordingHandler())):
            await until(lambda: len(first.messages) == 3)
        await brokers.commit("group", "orders", 100)
        recorder = RecordingHandler()
        async with consumer(cluster, recorder) as push:
            await until(lambda: 3 in [reader.next_offset for reader in push._readers.values()])
            await brokers.send("orders", b"next")
            await until(lambda: recorder.bodies == [b"next"])

        assert await brokers.committed("group", "orders") == 4


# Which messages


async def test_messages_are_filtered_by_tag_and_the_offset_passes_the_others(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"a", tag="TagA")
        await brokers.send("orders", b"b", tag="TagB")
        await brokers.send("orders", b"c", tag="TagC")
        await brokers.send("orders", b"none")
        recorder = RecordingHandler()

        async with PushConsumer(
            "group",
            recorder,
            topics={"orders": "TagA || TagC"},
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=options(cluster),
        ) as push:
            await until(lambda: sorted(recorder.bodies) == [b"a", b"c"])
            await until(lambda: 4 in push.status("orders").values())

        assert await brokers.committed("group", "orders") == 4


async def test_tags_with_equal_hashes_are_distinguished(cluster: Cluster) -> None:
    """Brokers compare only Java's hash of a tag, and `Aa` has the same hash as `BB`."""
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"wrong", tag="BB")
        await brokers.send("orders", b"right", tag="Aa")
        recorder = RecordingHandler()
        async with PushConsumer(
            "group",
            recorder,
            topics={"orders": "Aa"},
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=options(cluster),
        ):
            await until(lambda: recorder.bodies)

        assert recorder.bodies == [b"right"]
        assert await brokers.committed("group", "orders") == 2


async def test_an_sql92_expression_filters_by_properties(tmp_path: Path) -> None:
    async with Cluster(tmp_path, settings={"enablePropertyFilter": "true"}) as cluster, sender(cluster) as brokers:
        await brokers.send("orders", b"cheap", given={"price": "5"})
        await brokers.send("orders", b"dear", given={"price": "50"})
        recorder = RecordingHandler()
        async with PushConsumer(
            "group",
            recorder,
            topics={"orders": Sql92("price > 10")},
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=options(cluster),
        ):
            await until(lambda: recorder.bodies)

    assert recorder.bodies == [b"dear"]


async def test_a_running_consumer_may_subscribe_and_unsubscribe(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"order")
        await brokers.send("returns", b"return")
        recorder = RecordingHandler()
        async with consumer(cluster, recorder) as push:
            await until(lambda: recorder.bodies == [b"order"])

            await push.subscribe("returns")
            await until(lambda: recorder.bodies == [b"order", b"return"])

            await push.unsubscribe("orders")
            assert {queue.topic for queue in push.assigned} == {"returns", "%RETRY%group"}


async def test_a_topic_that_is_created_later_is_consumed(cluster: Cluster) -> None:
    recorder = RecordingHandler()
    async with consumer(cluster, recorder), sender(cluster) as brokers:
        await brokers.send("orders", b"first of all")

        await until(lambda: recorder.bodies == [b"first of all"])


# Members of a group


async def test_members_share_the_queues_and_the_remaining_one_gets_all(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        for queue_id in range(4):
            await brokers.send("orders", b"%d" % queue_id, queue_id=queue_id)
        recorder = RecordingHandler()

        def queues(push: PushConsumer) -> set[int]:
            return {queue.queue_id for queue in push.assigned if queue.topic == "orders"}

        async with consumer(cluster, recorder) as first:
            await until(lambda: queues(first) == {0, 1, 2, 3})
            async with consumer(cluster, recorder) as second:
                await until(lambda: len(queues(first)) == 2 and len(queues(second)) == 2)
                assert queues(first) | queues(second) == {0, 1, 2, 3}
            await until(lambda: queues(first) == {0, 1, 2, 3})

            await until(lambda: set(recorder.bodies) == {b"0", b"1", b"2", b"3"})


async def test_broadcasting_consumers_read_all_and_continue_at_their_local_offset(
    cluster: Cluster, tmp_path: Path
) -> None:
    def broadcasting(handler: Handler, name: str) -> PushConsumer:
        return consumer(
            cluster,
            handler,
            message_model=MessageModel.BROADCASTING,
            instance_name=name,
            local_offset_store_dir=tmp_path / "offsets",
        )

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        one, other = RecordingHandler(), RecordingHandler()
        async with broadcasting(one, "one"), broadcasting(other, "other"):
            await until(lambda: len(one.messages) == len(other.messages) == 3)
        assert (tmp_path / "offsets" / "127.0.0.1@one" / "group" / "offsets.json").exists()
        assert await brokers.committed("group", "orders") is None

        await brokers.send("orders", b"new")
        async with broadcasting((again := RecordingHandler()), "one"):
            await until(lambda: again.bodies == [b"new"])


async def test_broadcasting_consumers_do_not_retry(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"bad", b"good")
        recorder = RecordingHandler(Consumed.LATER)
        async with consumer(
            cluster, recorder, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path / "offsets"
        ) as push:
            await until(lambda: 2 in push.status("orders").values())

    assert "broadcasting consumers do not retry" in caplog.text


# Flow


async def test_pulling_stops_at_the_threshold_of_unconsumed_messages(cluster: Cluster) -> None:
    go_on = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        await go_on.wait()

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(100))
        async with consumer(
            cluster, handle, pull_batch_size=10, pull_threshold_for_queue=25, consume_thread_max=1
        ) as push:
            await until(lambda: push.statistics.of("orders").pulled >= 30)
            await settled(push)
            assert push.statistics.of("orders").pulled == 30

            go_on.set()
            await until(lambda: push.statistics.of("orders").consumed == 100)


@pytest.mark.parametrize(
    "bound",
    [
        PushKeywords(pull_threshold_size_for_queue_bytes=2000, pull_batch_size=10),
        PushKeywords(consume_concurrently_max_span=15, pull_batch_size=10),
        PushKeywords(pull_threshold_for_topic=15, pull_batch_size=10),
        PushKeywords(pull_threshold_size_for_topic_bytes=2000, pull_batch_size=10),
    ],
    ids=lambda bound: next(iter(bound)),
)
async def test_each_threshold_stops_pulling(cluster: Cluster, bound: PushKeywords) -> None:
    go_on = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        await go_on.wait()

    async with sender(cluster) as brokers:
        await brokers.send("orders", *[b"x" * 200] * 50)
        async with consumer(cluster, handle, **bound) as push:
            await until(lambda: push.statistics.of("orders").pulled >= 10)
            await settled(push)
            assert push.statistics.of("orders").pulled <= 20

            go_on.set()
            await until(lambda: push.statistics.of("orders").consumed == 50)


async def test_a_suspended_consumer_does_not_pull(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"first")
        recorder = RecordingHandler()
        async with consumer(cluster, recorder) as push:
            await until(lambda: recorder.bodies == [b"first"])
            push.suspend()
            # The pull in flight may still return a message.
            await brokers.send("orders", b"second")
            await until(lambda: len(recorder.bodies) == 2)
            await brokers.send("orders", b"third")
            await settled(push)
            assert len(recorder.bodies) == 2

            push.resume()
            await until(lambda: recorder.bodies[-1] == b"third")


# Its life


async def test_close_finishes_and_commits_running_messages(cluster: Cluster) -> None:
    handled: list[bytes] = []
    begun = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        begun.set()
        await asyncio.sleep(0.001)
        handled.extend(message.body for message in messages)

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(30))
        async with consumer(cluster, handle, consume_thread_max=2):
            await begun.wait()

        assert sorted(handled) == sorted(numbered(30))
        assert await brokers.committed("group", "orders") == 30


async def test_close_stops_waiting_and_commits_only_consumed_messages(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    done = 0

    async def handle(messages: list[Received]) -> None:
        nonlocal done
        if messages[0].body == b"2":
            await asyncio.Event().wait()
        done += 1

    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster, handle, await_termination_seconds=0.05):
            await until(lambda: done == 4)

        assert await brokers.committed("group", "orders") == 2
    assert "closed with 1 unconsumed messages" in caplog.text


async def test_a_consumer_starts_once_and_closing_twice_does_nothing(cluster: Cluster) -> None:
    push = consumer(cluster, RecordingHandler())
    await push.start()

    with pytest.raises(WrongState, match="has been started"):
        await push.start()
    await push.close()
    await push.close()
    await push.closed()
    with pytest.raises(WrongState, match="has been closed"):
        await push.start()


async def test_a_second_consumer_of_a_group_needs_another_client_id(cluster: Cluster) -> None:
    shared = options(cluster)
    async with PushConsumer("group", RecordingHandler(), topics="orders", options=shared):
        with pytest.raises(GroupTaken):
            await PushConsumer("group", RecordingHandler(), topics="orders", options=shared).start()

        async with PushConsumer("other", RecordingHandler(), topics="orders", options=shared):
            pass


async def test_start_fails_without_a_name_server() -> None:
    push = PushConsumer("group", RecordingHandler(), topics="orders", namesrv_addr="127.0.0.1:1")

    with pytest.raises(RemotingError):
        await push.start()


def test_invalid_arguments_are_refused_by_the_constructor() -> None:
    shared = Options(namesrv_addr="127.0.0.1:9876")

    with pytest.raises(ConfigurationError, match="not a valid name"):
        PushConsumer("no name at all", RecordingHandler(), topics="orders", options=shared)
    with pytest.raises(ConfigurationError, match="Java's default"):
        PushConsumer("DEFAULT_CONSUMER", RecordingHandler(), topics="orders", options=shared)
    with pytest.raises(ConfigurationError, match="consume_thread_max=0"):
        PushConsumer("group", RecordingHandler(), topics="orders", options=shared, consume_thread_max=0)
    with pytest.raises(ConfigurationError, match="SQL92"):
        PushConsumer("group", RecordingHandler(), topics={"orders": Sql92("price >")}, options=shared)


async def test_the_namespace_is_added_for_brokers_and_hidden_from_handlers(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("tenant%orders", b"body")
        recorder = RecordingHandler(Consumed.later(delay_level=1))
        async with consumer(cluster, recorder, namespace="tenant"):
            await until(lambda: len(recorder.messages) == 2)

        assert [message.topic for message in recorder.messages] == ["orders", "orders"]
        assert await brokers.committed("tenant%group", "tenant%orders") == 1


async def test_consume_from_timestamp_begins_at_that_time(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        # On a young topic brokers return offset 0 for an unknown group, whatever `consume_from` is.
        recorder = RecordingHandler()
        async with consumer(
            cluster,
            recorder,
            consume_from=ConsumeFrom.TIMESTAMP,
            consume_timestamp=datetime.now(UTC) - timedelta(hours=1),
        ):
            await until(lambda: len(recorder.messages) == 3)
