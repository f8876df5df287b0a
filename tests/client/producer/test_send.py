"""Retries, timeouts and errors of sends."""

import asyncio
from collections.abc import Sequence

import pytest

from kerolox.client.errors import NoRoute, SendFailed
from kerolox.client.hooks import MessageType, Sending
from kerolox.client.messages import Message, SendStatus
from kerolox.client.producer.send import InFlightLimit
from kerolox.codes import ResponseCode
from kerolox.errors import CallTimeout, ConnectFailed, SystemBusy
from kerolox.message.errors import MessageIllegal
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.brokers import TOPIC, ScriptedBroker, ScriptedCluster
from tests.client.producer.producing import producing
from tests.client.sessions import silent_server, until

MESSAGE = Message(TOPIC, b"body")
DEAD_ADDRESS = "127.0.0.1:1"

RETRIED = [
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
    ResponseCode.GO_AWAY,
]


@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
async def test_a_retryable_error_is_retried_on_another_broker(scripted: ScriptedCluster, code: ResponseCode) -> None:
    async with scripted.broker("a", code, code, code) as a, scripted.broker("b") as b, producing(scripted) as producer:
        for _ in range(2):
            assert (await producer.send(MESSAGE)).queue.broker_name == "b"

    assert len(b.sent) == 2
    assert len(a.sent) <= 2


async def test_a_final_error_is_not_retried(scripted: ScriptedCluster) -> None:
    illegal = ResponseCode.MESSAGE_ILLEGAL
    async with scripted.broker("a", illegal) as a, scripted.broker("b", illegal) as b, producing(scripted) as producer:
        with pytest.raises(SendFailed, match=r"after 1 attempt .*as the script says") as failed:
            await producer.send(MESSAGE)

    assert isinstance(failed.value.cause, MessageIllegal)
    assert len(a.sent) + len(b.sent) == 1


async def test_the_error_counts_the_attempts_and_names_the_brokers(scripted: ScriptedCluster) -> None:
    busy = [ResponseCode.SYSTEM_BUSY] * 3
    async with scripted.broker("a", *busy), scripted.broker("b", *busy), producing(scripted) as producer:
        with pytest.raises(SendFailed, match="topic 'orders' failed after 3 attempts") as failed:
            await producer.send(MESSAGE)

    assert sorted(set(failed.value.brokers)) == ["a", "b"]
    assert isinstance(failed.value.__cause__, SystemBusy)


async def test_retries_keep_the_message_id(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a", *[ResponseCode.SYSTEM_BUSY] * 2) as a, producing(scripted) as producer:
        result = await producer.send(MESSAGE)

    assert len(a.sent) == 3
    assert all(f"UNIQ_KEY\x01{result.message_id}\x02" in (sent.properties or "") for sent in a.sent)


async def test_a_dead_broker_in_the_route_is_tried_once(scripted: ScriptedCluster) -> None:
    await scripted.list_broker("dead", DEAD_ADDRESS)
    async with scripted.broker("b") as b, producing(scripted) as producer:
        results = [await producer.send(MESSAGE) for _ in range(20)]

    assert {result.queue.broker_name for result in results} == {"b"}
    assert len(b.sent) == 20


async def test_a_broker_that_hangs_leaves_time_for_another_attempt(scripted: ScriptedCluster) -> None:
    with silent_server() as silent:
        await scripted.list_broker("hangs", silent)
        async with scripted.broker("b"), producing(scripted, send_timeout_seconds=0.9) as producer:
            results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(50)))

            assert {result.queue.broker_name for result in results} == {"b"}
            start = asyncio.get_running_loop().time()
            for _ in range(20):
                await producer.send(MESSAGE)
            assert asyncio.get_running_loop().time() - start < 2


async def test_a_broker_that_responds_again_is_used_again(scripted: ScriptedCluster) -> None:
    async with (
        scripted.broker("a") as a,
        scripted.broker("b"),
        producing(scripted, send_timeout_seconds=0.6) as producer,
    ):
        a.is_silent = True
        while not a.sent:
            assert (await producer.send(MESSAGE)).queue.broker_name == "b"
        a.is_silent = False

        async def is_back() -> bool:
            return (await producer.send(MESSAGE)).queue.broker_name == "a"

        async with asyncio.timeout(10):
            while not await is_back():
                await asyncio.sleep(0.01)


async def test_a_lost_connection_is_retried_on_another_broker(scripted: ScriptedCluster) -> None:
    drops = [ScriptedBroker.DROP] * 5
    async with scripted.broker("a", *drops), scripted.broker("b"), producing(scripted) as producer:
        for _ in range(4):
            assert (await producer.send(MESSAGE)).queue.broker_name == "b"


async def test_a_broker_that_restarts_within_the_timeout_gets_the_message(scripted: ScriptedCluster) -> None:
    """A request that was never sent is retried until the timeout, even if there is no other broker."""
    async with scripted.broker("a") as first:
        address = first.server.address
    await scripted.list_broker("a", address)
    async with producing(scripted) as producer:
        sending = asyncio.create_task(producer.send(MESSAGE))
        await until(lambda: producer._sender.fault_tolerance.has_faults)
        assert not sending.done()

        async with scripted.broker("a") as a:
            assert (await sending).queue.broker_name == "a"

    assert len(a.sent) == 1


async def test_without_a_live_broker_the_send_fails_at_its_timeout(scripted: ScriptedCluster) -> None:
    await scripted.list_broker("dead", DEAD_ADDRESS)
    async with producing(scripted) as producer:
        with pytest.raises(SendFailed, match=r"dead.*cannot connect") as failed:
            await producer.send(MESSAGE, timeout_seconds=0.3)

    assert isinstance(failed.value.cause, ConnectFailed)
    assert failed.value.seconds < 2


async def test_a_message_for_a_given_queue_is_not_retried(scripted: ScriptedCluster) -> None:
    busy = ResponseCode.SYSTEM_BUSY
    async with scripted.broker("a", busy) as a, scripted.broker("b") as b, producing(scripted) as producer:
        with pytest.raises(SendFailed, match="after 1 attempt"):
            await producer.send(MESSAGE, queue=MessageQueue("a", 0, TOPIC))

    assert (len(a.sent), len(b.sent)) == (1, 0)


async def test_a_message_for_a_given_queue_has_the_whole_timeout(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a", None) as a, scripted.broker("b") as b, producing(scripted) as producer:
        with pytest.raises(SendFailed) as failed:
            await producer.send(MESSAGE, queue=MessageQueue("a", 0, TOPIC), timeout_seconds=0.3)

    assert isinstance(failed.value.cause, CallTimeout)
    assert failed.value.seconds >= 0.28
    assert (len(a.sent), len(b.sent)) == (1, 0)


async def test_the_error_names_the_topic_without_its_namespace(scripted: ScriptedCluster) -> None:
    await scripted.list_broker("dead", DEAD_ADDRESS)
    async with producing(scripted, namespace="ns") as producer:
        with pytest.raises(SendFailed, match="topic 'orders' failed"):
            await producer.send(MESSAGE, timeout_seconds=0.1)


async def test_the_error_names_a_broker_without_a_master(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a"), producing(scripted) as producer:
        with pytest.raises(SendFailed, match="'gone' has no master") as failed:
            await producer.send(MESSAGE, queue=MessageQueue("gone", 0, TOPIC), timeout_seconds=0.2)

    assert isinstance(failed.value.cause, NoRoute)


async def test_a_topic_without_writable_queues_is_an_error(scripted: ScriptedCluster) -> None:
    await scripted.list_broker("a", DEAD_ADDRESS, TOPIC, "TBW102", queues=0)
    async with producing(scripted) as producer:
        with pytest.raises(SendFailed, match="no writable queue"):
            await producer.send(MESSAGE, timeout_seconds=0.2)


async def test_an_unreachable_name_server_is_an_error(scripted: ScriptedCluster) -> None:
    async with producing(scripted, namesrv_addr=DEAD_ADDRESS) as producer:
        with pytest.raises(SendFailed, match="no queue to send to: cannot connect"):
            await producer.send(MESSAGE, timeout_seconds=0.2)


STATUSES = [
    (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
    (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
    (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
]


@pytest.mark.parametrize(("code", "status"), STATUSES)
async def test_a_status_other_than_ok_is_returned(scripted: ScriptedCluster, code: int, status: SendStatus) -> None:
    async with scripted.broker("a", code) as a, producing(scripted) as producer:
        assert (await producer.send(MESSAGE)).status is status

    assert len(a.sent) == 1


async def test_a_status_other_than_ok_is_retried_if_configured(scripted: ScriptedCluster) -> None:
    late = [ResponseCode.FLUSH_DISK_TIMEOUT] * 9
    async with (
        scripted.broker("a", *late) as a,
        scripted.broker("b") as b,
        producing(scripted, retry_another_broker_when_not_store_ok=True) as producer,
    ):
        for _ in range(2):
            assert (await producer.send(MESSAGE)).status is SendStatus.OK
        b.script = list(late)
        assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_DISK_TIMEOUT

    assert a.sent


async def test_oneway_fails_only_if_no_broker_is_reached(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a, producing(scripted) as producer:
        await producer.send_oneway(MESSAGE)
        await until(lambda: a.sent)

    async with producing(scripted, send_timeout_seconds=0.3) as producer:
        with pytest.raises(SendFailed, match="after 1 attempt"):
            await producer.send_oneway(MESSAGE)


async def test_requests_have_java_s_fields(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a, producing(scripted, default_topic_queue_nums=3, unit_mode=True) as producer:
        await producer.send(Message(TOPIC, b"body", flag=9))
        await producer.send([Message(TOPIC, b"body")])

    one, batch = a.sent
    assert (one.producer_group, one.topic, one.default_topic, one.default_topic_queue_nums) == (
        "shop", TOPIC, "TBW102", 3,
    )  # fmt: skip
    assert (one.flag, one.reconsume_times, one.unit_mode, one.batch, one.broker_name) == (9, 0, True, False, "a")
    assert batch.batch is True


async def test_the_vip_channel_is_used_if_enabled(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a:
        host, _, port = a.server.address.partition(":")
        await scripted.list_broker("a", f"{host}:{int(port) + 2}")
        async with producing(scripted, vip_channel_enabled=True) as producer:
            await producer.send(MESSAGE)

    assert len(a.sent) == 1


async def test_a_producer_with_credentials_sends(scripted: ScriptedCluster) -> None:
    async with (
        scripted.broker("a") as a,
        producing(scripted, access_key="rocketmq2", secret_key="12345678") as producer,
    ):
        await producer.send(MESSAGE)

    assert a.bodies == [b"body"]


class RecordingHook:
    def __init__(self) -> None:
        self.before: list[str] = []
        self.after: list[Sending] = []

    def before_send(self, sending: Sending) -> None:
        self.before.append(sending.broker_name)

    def after_send(self, sending: Sending) -> None:
        self.after.append(sending)


class FailingHook:
    def before_send(self, sending: Sending) -> None:
        raise ValueError("bug in a hook")

    after_send = before_send


async def test_hooks_are_called_for_each_attempt(scripted: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingHook()
    hooks: Sequence[object] = (FailingHook(), recording)
    async with scripted.broker("a", ResponseCode.SYSTEM_BUSY), producing(scripted, hooks=hooks) as producer:
        result = await producer.send(Message(TOPIC, b"body", delay_level=1))
        await producer.send_oneway(MESSAGE)

    failed, sent, oneway = recording.after
    assert recording.before == ["a", "a", "a"]
    assert isinstance(failed.error, SystemBusy)
    assert (sent.result, sent.message_ids, sent.message_type) == (result, [result.message_id], MessageType.DELAY)
    assert (sent.body_size, sent.producer_group, oneway.result, oneway.error) == (4, "shop", None, None)
    assert "before_send of hook" in caplog.text


async def test_slots_are_given_first_come_first_served() -> None:
    limit = InFlightLimit(1)
    order: list[int] = []

    async def take(number: int) -> None:
        if limit.is_full:
            await limit.wait_and_enter()
        else:
            limit.enter()
        order.append(number)
        await asyncio.sleep(0)
        limit.leave()

    await asyncio.gather(*map(take, range(5)))

    assert order == [0, 1, 2, 3, 4]
    assert limit.count == 0


async def test_cancelling_a_waiter_takes_no_slot() -> None:
    limit = InFlightLimit(1)
    limit.enter()
    leaving, staying = asyncio.create_task(limit.wait_and_enter()), asyncio.create_task(limit.wait_and_enter())
    await asyncio.sleep(0)

    leaving.cancel()
    limit.leave()
    await staying
    limit.leave()

    assert limit.count == 0
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_a_waiter_cancelled_as_it_gets_its_slot_hands_it_on() -> None:
    limit = InFlightLimit(1)
    limit.enter()
    leaving, staying = asyncio.create_task(limit.wait_and_enter()), asyncio.create_task(limit.wait_and_enter())
    await asyncio.sleep(0)

    limit.leave()
    leaving.cancel()

    await staying
    limit.leave()
    assert limit.count == 0
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_wait_empty_returns_when_nothing_is_in_flight() -> None:
    limit = InFlightLimit(2)
    await limit.wait_empty()
    limit.enter()
    limit.enter()
    waiting = [asyncio.create_task(limit.wait_empty()) for _ in range(2)]
    limit.leave()
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)

    limit.leave()

    await asyncio.gather(*waiting)
