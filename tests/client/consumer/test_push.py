"""The push consumer, against brokers of our own."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Unpack

import pytest

from kerolox.client.consumer.handling import Handler
from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.push import PushConsumer
from kerolox.client.consumer.rebalance import MessageModel
from kerolox.client.consumer.results import Consumed
from kerolox.client.consumer.settings import PushKeywords
from kerolox.client.consumer.subscriptions import Sql92
from kerolox.client.errors import GroupTaken, WrongState
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.errors import ConfigurationError, RemotingError
from kerolox.testing import Cluster
from tests.client.consumer.consumers import Noted, numbered, sender, settled
from tests.client.sessions import options, until


def consumer(cluster: Cluster, handler: Handler, **keywords: Unpack[PushKeywords]) -> PushConsumer:
    merged: PushKeywords = {
        "namesrv_addr": cluster.namesrv_addr,
        "client_ip": "127.0.0.1",
        "consume_from": ConsumeFrom.FIRST_OFFSET,
        **keywords,
    }
    return PushConsumer("group", handler, topics="orders", **merged)


async def test_what_was_sent_is_consumed_and_committed_at_the_end(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(50))
        noted = Noted()

        async with consumer(cluster, noted):
            await until(lambda: len(noted.messages) == 50)

        assert sorted(noted.bodies) == sorted(numbered(50))
        assert await brokers.committed("group", "orders") == 50


async def test_what_is_sent_later_comes_at_once(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"first")
        noted = Noted()
        async with consumer(cluster, noted):
            await until(lambda: noted.bodies == [b"first"])

            await brokers.send("orders", b"second")

            await until(lambda: noted.bodies == [b"first", b"second"])
            assert noted.messages[1].topic == "orders"
            assert noted.messages[1].queue_offset == 1


async def test_a_plain_function_is_called_in_threads_several_at_once(cluster: Cluster) -> None:
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


async def test_coroutines_run_several_at_once(cluster: Cluster) -> None:
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


async def test_a_call_gets_as_many_messages_as_are_allowed(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(20))
        noted = Noted()

        async with consumer(cluster, noted, consume_message_batch_max_size=8):
            await until(lambda: len(noted.messages) == 20)

    assert max(map(len, noted.calls)) == 8


# What fails


async def test_a_message_that_fails_comes_again_and_holds_up_nobody(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"bad", b"good")
        calls: list[tuple[bytes, int, str]] = []

        async def handle(messages: list[Received]) -> Consumed | None:
            (message,) = messages
            calls.append((message.body, message.reconsume_times, message.topic))
            # The shortest delay of a broker is one second.
            return Consumed.later(delay_level=1) if calls.count(calls[-1]) and len(calls) == 1 else None

        async with consumer(cluster, handle):
            await until(lambda: len(calls) == 3)

        assert calls[:2] == [(b"bad", 0, "orders"), (b"good", 0, "orders")]
        assert calls[2] == (b"bad", 1, "orders")
        assert await brokers.committed("group", "orders") == 2
        assert await brokers.committed("group", "%RETRY%group") == 1


async def test_what_a_handler_raises_has_its_messages_come_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"bad")

        async with consumer(cluster, Noted(ValueError("broken"))) as push:
            await until(lambda: push.statistics.of("orders").failed == 1)

        assert await brokers.committed("group", "orders") == 1
        # Ten seconds from now it will be in the retry topic, and until then among what is scheduled.
        assert await brokers.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1
    assert "broken" in caplog.text


async def test_a_message_may_be_sent_to_the_dead_letters_at_once(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"hopeless")

        async with consumer(cluster, Noted(Consumed.later(delay_level=-1))) as push:
            await until(lambda: push.statistics.of("orders").failed == 1)

        assert await brokers.max_offset("%DLQ%group", 0) == 1


async def test_of_a_batch_the_first_may_have_succeeded(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(4))

        noted = Noted(Consumed.later(delay_level=-1, succeeded=3))
        async with consumer(cluster, noted, consume_message_batch_max_size=4) as push:
            await until(lambda: push.statistics.of("orders").failed)

        assert await brokers.max_offset("%DLQ%group", 0) == 1
        assert await brokers.committed("group", "orders") == 4


async def test_a_body_that_cannot_be_restored_is_a_dead_letter_and_holds_up_nobody(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"not zlib at all", sys_flag=1)
        await brokers.send("orders", b"good")
        noted = Noted()
        async with consumer(cluster, noted):
            await until(lambda: noted.bodies == [b"good"])
            for _ in range(1000):
                if await brokers.max_offset("%DLQ%group"):
                    break

        assert await brokers.max_offset("%DLQ%group") == 1
        assert await brokers.committed("group", "orders") == 2
    assert "was passed over" in caplog.text


async def test_what_is_no_result_is_a_failure(cluster: Cluster) -> None:
    async def handle(messages: list[Received]) -> bool:
        return True

    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        async with consumer(cluster, handle) as push:  # type: ignore[arg-type]
            await until(lambda: push.statistics.of("orders").failed == 1)


# Where to begin


async def test_a_new_group_begins_at_the_end_unless_the_topic_is_young(cluster: Cluster) -> None:
    """Brokers answer 0 for a group they do not know, as long as nothing of the queue is old."""
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"early")
        noted = Noted()
        async with consumer(cluster, noted, consume_from=ConsumeFrom.LAST_OFFSET):
            await until(lambda: noted.bodies == [b"early"])


async def test_a_group_goes_on_where_it_was(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(5))
        async with consumer(cluster, (first := Noted())):
            await until(lambda: len(first.messages) == 5)
        await brokers.send("orders", *numbered(5, start=5))

        async with consumer(cluster, (second := Noted())):
            await until(lambda: len(second.messages) == 5)

        assert second.bodies == numbered(5, start=5)


async def test_from_an_offset_that_is_not_there_it_goes_on_where_the_broker_says(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        async with consumer(cluster, (first := Noted())):
            await until(lambda: len(first.messages) == 3)
        await brokers.commit("group", "orders", 100)
        noted = Noted()
        async with consumer(cluster, noted) as push:
            await until(lambda: 3 in [reader.next_offset for reader in push._readers.values()])
            await brokers.send("orders", b"next")
            await until(lambda: noted.bodies == [b"next"])

        assert await brokers.committed("group", "orders") == 4


# Which messages


async def test_only_messages_with_these_tags_come_and_the_others_are_passed_over(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"a", tag="TagA")
        await brokers.send("orders", b"b", tag="TagB")
        await brokers.send("orders", b"c", tag="TagC")
        await brokers.send("orders", b"none")
        noted = Noted()

        async with PushConsumer(
            "group",
            noted,
            topics={"orders": "TagA || TagC"},
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=options(cluster),
        ) as push:
            await until(lambda: sorted(noted.bodies) == [b"a", b"c"])
            await until(lambda: 4 in push.status("orders").values())

        assert await brokers.committed("group", "orders") == 4


async def test_tags_of_the_same_hash_are_told_apart(cluster: Cluster) -> None:
    """Brokers know tags by Java's hash only, and `Aa` has the same as `BB`."""
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"wrong", tag="BB")
        await brokers.send("orders", b"right", tag="Aa")
        noted = Noted()
        async with PushConsumer(
            "group",
            noted,
            topics={"orders": "Aa"},
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=options(cluster),
        ):
            await until(lambda: noted.bodies)

        assert noted.bodies == [b"right"]
        assert await brokers.committed("group", "orders") == 2


async def test_an_expression_selects_by_properties(tmp_path: Path) -> None:
    async with Cluster(tmp_path, settings={"enablePropertyFilter": "true"}) as cluster, sender(cluster) as brokers:
        await brokers.send("orders", b"cheap", given={"price": "5"})
        await brokers.send("orders", b"dear", given={"price": "50"})
        noted = Noted()
        async with PushConsumer(
            "group",
            noted,
            topics={"orders": Sql92("price > 10")},
            consume_from=ConsumeFrom.FIRST_OFFSET,
            options=options(cluster),
        ):
            await until(lambda: noted.bodies)

    assert noted.bodies == [b"dear"]


async def test_a_topic_may_be_wanted_later_and_no_longer(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"order")
        await brokers.send("returns", b"return")
        noted = Noted()
        async with consumer(cluster, noted) as push:
            await until(lambda: noted.bodies == [b"order"])

            await push.subscribe("returns")
            await until(lambda: noted.bodies == [b"order", b"return"])

            await push.unsubscribe("orders")
            assert {queue.topic for queue in push.assigned} == {"returns", "%RETRY%group"}


async def test_a_topic_that_comes_to_be_later_is_read_then(cluster: Cluster) -> None:
    noted = Noted()
    async with consumer(cluster, noted), sender(cluster) as brokers:
        await brokers.send("orders", b"first of all")

        await until(lambda: noted.bodies == [b"first of all"])


# Members of a group


async def test_members_share_the_queues_and_the_last_one_has_all(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        for queue_id in range(4):
            await brokers.send("orders", b"%d" % queue_id, queue_id=queue_id)
        noted = Noted()

        def queues(push: PushConsumer) -> set[int]:
            return {queue.queue_id for queue in push.assigned if queue.topic == "orders"}

        async with consumer(cluster, noted) as first:
            await until(lambda: queues(first) == {0, 1, 2, 3})
            async with consumer(cluster, noted) as second:
                await until(lambda: len(queues(first)) == 2 and len(queues(second)) == 2)
                assert queues(first) | queues(second) == {0, 1, 2, 3}
            await until(lambda: queues(first) == {0, 1, 2, 3})

            await until(lambda: set(noted.bodies) == {b"0", b"1", b"2", b"3"})


async def test_in_a_group_that_broadcasts_each_reads_all_and_finds_its_place_again(
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
        one, other = Noted(), Noted()
        async with broadcasting(one, "one"), broadcasting(other, "other"):
            await until(lambda: len(one.messages) == len(other.messages) == 3)
        assert (tmp_path / "offsets" / "127.0.0.1@one" / "group" / "offsets.json").exists()
        assert await brokers.committed("group", "orders") is None

        await brokers.send("orders", b"new")
        async with broadcasting((again := Noted()), "one"):
            await until(lambda: again.bodies == [b"new"])


async def test_what_fails_where_all_read_all_does_not_come_again(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"bad", b"good")
        noted = Noted(Consumed.LATER)
        async with consumer(
            cluster, noted, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path / "offsets"
        ) as push:
            await until(lambda: 2 in push.status("orders").values())

    assert "does not come again" in caplog.text


# Flow


async def test_no_more_is_read_than_may_be_in_hand(cluster: Cluster) -> None:
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
async def test_reading_stops_at_each_of_the_bounds(cluster: Cluster, bound: PushKeywords) -> None:
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


async def test_a_suspended_consumer_reads_nothing(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"first")
        noted = Noted()
        async with consumer(cluster, noted) as push:
            await until(lambda: noted.bodies == [b"first"])
            push.suspend()
            # The pull that is under way may still bring something.
            await brokers.send("orders", b"second")
            await until(lambda: len(noted.bodies) == 2)
            await brokers.send("orders", b"third")
            await settled(push)
            assert len(noted.bodies) == 2

            push.resume()
            await until(lambda: noted.bodies[-1] == b"third")


# Its life


async def test_closing_finishes_and_commits_what_is_in_hand(cluster: Cluster) -> None:
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


async def test_closing_does_not_wait_for_ever_and_commits_only_what_is_done(
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
    assert "closed with 1 messages in hand" in caplog.text


async def test_a_consumer_starts_once_and_closes_as_often_as_one_likes(cluster: Cluster) -> None:
    push = consumer(cluster, Noted())
    await push.start()

    with pytest.raises(WrongState, match="has been started"):
        await push.start()
    await push.close()
    await push.close()
    await push.closed()
    with pytest.raises(WrongState, match="has been closed"):
        await push.start()


async def test_one_client_id_has_one_consumer_of_a_group(cluster: Cluster) -> None:
    shared = options(cluster)
    async with PushConsumer("group", Noted(), topics="orders", options=shared):
        with pytest.raises(GroupTaken):
            await PushConsumer("group", Noted(), topics="orders", options=shared).start()

        async with PushConsumer("other", Noted(), topics="orders", options=shared):
            pass


async def test_without_a_name_server_it_does_not_start() -> None:
    push = PushConsumer("group", Noted(), topics="orders", namesrv_addr="127.0.0.1:1")

    with pytest.raises(RemotingError):
        await push.start()


def test_what_cannot_be_is_refused_before_anything_is_started() -> None:
    shared = Options(namesrv_addr="127.0.0.1:9876")

    with pytest.raises(ConfigurationError, match="no name"):
        PushConsumer("no name at all", Noted(), topics="orders", options=shared)
    with pytest.raises(ConfigurationError, match="everybody's"):
        PushConsumer("DEFAULT_CONSUMER", Noted(), topics="orders", options=shared)
    with pytest.raises(ConfigurationError, match="consume_thread_max is 0"):
        PushConsumer("group", Noted(), topics="orders", options=shared, consume_thread_max=0)
    with pytest.raises(ConfigurationError, match="SQL92"):
        PushConsumer("group", Noted(), topics={"orders": Sql92("price >")}, options=shared)


async def test_a_namespace_is_around_topics_and_groups_and_not_to_be_seen(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("tenant%orders", b"body")
        noted = Noted(Consumed.later(delay_level=1))
        async with consumer(cluster, noted, namespace="tenant"):
            await until(lambda: len(noted.messages) == 2)

        assert [message.topic for message in noted.messages] == ["orders", "orders"]
        assert await brokers.committed("tenant%group", "tenant%orders") == 1


async def test_a_timestamp_may_say_where_to_begin(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", *numbered(3))
        # Brokers answer 0 for groups they do not know on young topics, so one that the group has left is needed.
        noted = Noted()
        async with consumer(
            cluster,
            noted,
            consume_from=ConsumeFrom.TIMESTAMP,
            consume_timestamp=datetime.now(UTC) - timedelta(hours=1),
        ):
            await until(lambda: len(noted.messages) == 3)
