"""What happens when brokers fail: another is asked, as long as time is left."""

import asyncio
from collections.abc import Sequence

import pytest

from kerolox.client.errors import NoRoute, SendFailed
from kerolox.client.hooks import MessageType, Sending
from kerolox.client.messages import Message, SendStatus
from kerolox.codes import ResponseCode
from kerolox.errors import CallTimeout, ConnectFailed, SystemBusy
from kerolox.message.errors import MessageIllegal
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.brokers import TOPIC, ScriptedBroker, Stage
from tests.client.producer.producing import producing
from tests.client.sessions import silent_server, until

MESSAGE = Message(TOPIC, b"body")
NOBODY = "127.0.0.1:1"

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
async def test_another_broker_is_asked_when_one_refuses(stage: Stage, code: ResponseCode) -> None:
    async with stage.broker("a", code, code, code) as a, stage.broker("b") as b, producing(stage) as producer:
        for _ in range(2):
            assert (await producer.send(MESSAGE)).queue.broker_name == "b"

    assert len(b.sent) == 2
    assert len(a.sent) <= 2


async def test_what_no_broker_would_take_is_not_tried_elsewhere(stage: Stage) -> None:
    illegal = ResponseCode.MESSAGE_ILLEGAL
    async with stage.broker("a", illegal) as a, stage.broker("b", illegal) as b, producing(stage) as producer:
        with pytest.raises(SendFailed, match=r"after 1 attempt .*as the script says") as failed:
            await producer.send(MESSAGE)

    assert isinstance(failed.value.cause, MessageIllegal)
    assert len(a.sent) + len(b.sent) == 1


async def test_after_all_attempts_the_error_names_them(stage: Stage) -> None:
    busy = [ResponseCode.SYSTEM_BUSY] * 3
    async with stage.broker("a", *busy), stage.broker("b", *busy), producing(stage) as producer:
        with pytest.raises(SendFailed, match="topic 'orders' failed after 3 attempts") as failed:
            await producer.send(MESSAGE)

    assert sorted(set(failed.value.brokers)) == ["a", "b"]
    assert isinstance(failed.value.__cause__, SystemBusy)


async def test_the_id_stays_the_same_however_often_it_is_sent(stage: Stage) -> None:
    async with stage.broker("a", *[ResponseCode.SYSTEM_BUSY] * 2) as a, producing(stage) as producer:
        result = await producer.send(MESSAGE)

    assert len(a.sent) == 3
    assert all(f"UNIQ_KEY\x01{result.message_id}\x02" in (sent.properties or "") for sent in a.sent)


async def test_a_dead_broker_that_is_still_listed_is_paid_for_once(stage: Stage) -> None:
    await stage.list_broker("dead", NOBODY)
    async with stage.broker("b") as b, producing(stage) as producer:
        results = [await producer.send(MESSAGE) for _ in range(20)]

    assert {result.queue.broker_name for result in results} == {"b"}
    assert len(b.sent) == 20


async def test_a_broker_that_hangs_leaves_time_for_another(stage: Stage) -> None:
    with silent_server() as silent:
        await stage.list_broker("hangs", silent)
        async with stage.broker("b"), producing(stage, send_timeout_seconds=0.9) as producer:
            results = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(50)))

            assert {result.queue.broker_name for result in results} == {"b"}
            start = asyncio.get_running_loop().time()
            for _ in range(20):
                await producer.send(MESSAGE)
            assert asyncio.get_running_loop().time() - start < 2


async def test_a_broker_that_answers_again_is_sent_to_again(stage: Stage) -> None:
    async with stage.broker("a") as a, stage.broker("b"), producing(stage, send_timeout_seconds=0.6) as producer:
        a.is_silent = True
        while not a.sent:
            assert (await producer.send(MESSAGE)).queue.broker_name == "b"
        a.is_silent = False

        async def is_back() -> bool:
            return (await producer.send(MESSAGE)).queue.broker_name == "a"

        async with asyncio.timeout(10):
            while not await is_back():
                await asyncio.sleep(0.01)


async def test_a_lost_connection_sends_the_message_elsewhere(stage: Stage) -> None:
    drops = [ScriptedBroker.DROP] * 5
    async with stage.broker("a", *drops), stage.broker("b"), producing(stage) as producer:
        for _ in range(4):
            assert (await producer.send(MESSAGE)).queue.broker_name == "b"


async def test_a_broker_that_comes_back_in_time_gets_the_message(stage: Stage) -> None:
    """What never left can be repeated as often as there is time, also where there is no other broker."""
    async with stage.broker("a") as first:
        address = first.server.address
    await stage.list_broker("a", address)
    async with producing(stage) as producer:
        sending = asyncio.create_task(producer.send(MESSAGE))
        await until(lambda: producer._sender.faults.are_any)
        assert not sending.done()

        async with stage.broker("a") as a:
            assert (await sending).queue.broker_name == "a"

    assert len(a.sent) == 1


async def test_with_no_broker_at_all_the_error_comes_when_time_is_over(stage: Stage) -> None:
    await stage.list_broker("dead", NOBODY)
    async with producing(stage) as producer:
        with pytest.raises(SendFailed, match=r"dead.*cannot connect") as failed:
            await producer.send(MESSAGE, timeout_seconds=0.3)

    assert isinstance(failed.value.cause, ConnectFailed)
    assert failed.value.seconds < 2


async def test_a_message_for_one_queue_goes_nowhere_else(stage: Stage) -> None:
    busy = ResponseCode.SYSTEM_BUSY
    async with stage.broker("a", busy) as a, stage.broker("b") as b, producing(stage) as producer:
        with pytest.raises(SendFailed, match="after 1 attempt"):
            await producer.send(MESSAGE, queue=MessageQueue("a", 0, TOPIC))

    assert (len(a.sent), len(b.sent)) == (1, 0)


async def test_a_message_for_one_queue_has_all_the_time_there_is(stage: Stage) -> None:
    async with stage.broker("a", None) as a, stage.broker("b") as b, producing(stage) as producer:
        with pytest.raises(SendFailed) as failed:
            await producer.send(MESSAGE, queue=MessageQueue("a", 0, TOPIC), timeout_seconds=0.3)

    assert isinstance(failed.value.cause, CallTimeout)
    assert failed.value.seconds >= 0.28
    assert (len(a.sent), len(b.sent)) == (1, 0)


async def test_the_error_names_the_topic_as_the_user_knows_it(stage: Stage) -> None:
    await stage.list_broker("dead", NOBODY)
    async with producing(stage, namespace="ns") as producer:
        with pytest.raises(SendFailed, match="topic 'orders' failed"):
            await producer.send(MESSAGE, timeout_seconds=0.1)


async def test_a_broker_that_has_no_address_is_named(stage: Stage) -> None:
    async with stage.broker("a"), producing(stage) as producer:
        with pytest.raises(SendFailed, match="'gone' has no master") as failed:
            await producer.send(MESSAGE, queue=MessageQueue("gone", 0, TOPIC), timeout_seconds=0.2)

    assert isinstance(failed.value.cause, NoRoute)


async def test_a_topic_without_a_queue_to_write_is_an_error_that_says_so(stage: Stage) -> None:
    await stage.list_broker("a", NOBODY, TOPIC, "TBW102", queues=0)
    async with producing(stage) as producer:
        with pytest.raises(SendFailed, match="no queue that can be written"):
            await producer.send(MESSAGE, timeout_seconds=0.2)


async def test_without_a_name_server_the_error_says_so(stage: Stage) -> None:
    async with producing(stage, namesrv_addr=NOBODY) as producer:
        with pytest.raises(SendFailed, match="nowhere to send to: cannot connect"):
            await producer.send(MESSAGE, timeout_seconds=0.2)


STATUSES = [
    (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
    (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
    (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
]


@pytest.mark.parametrize(("code", "status"), STATUSES)
async def test_a_message_that_is_not_safe_yet_is_a_result(stage: Stage, code: int, status: SendStatus) -> None:
    async with stage.broker("a", code) as a, producing(stage) as producer:
        assert (await producer.send(MESSAGE)).status is status

    assert len(a.sent) == 1


async def test_a_message_that_is_not_safe_yet_is_sent_elsewhere_if_wanted(stage: Stage) -> None:
    late = [ResponseCode.FLUSH_DISK_TIMEOUT] * 9
    async with (
        stage.broker("a", *late) as a,
        stage.broker("b") as b,
        producing(stage, retry_another_broker_when_not_store_ok=True) as producer,
    ):
        for _ in range(2):
            assert (await producer.send(MESSAGE)).status is SendStatus.OK
        b.script = list(late)
        assert (await producer.send(MESSAGE)).status is SendStatus.FLUSH_DISK_TIMEOUT

    assert a.sent


async def test_oneway_says_only_what_it_knows(stage: Stage) -> None:
    async with stage.broker("a") as a, producing(stage) as producer:
        await producer.send_oneway(MESSAGE)
        await until(lambda: a.sent)

    async with producing(stage, send_timeout_seconds=0.3) as producer:
        with pytest.raises(SendFailed, match="after 1 attempt"):
            await producer.send_oneway(MESSAGE)


async def test_requests_say_what_java_s_say(stage: Stage) -> None:
    async with stage.broker("a") as a, producing(stage, default_topic_queue_nums=3, unit_mode=True) as producer:
        await producer.send(Message(TOPIC, b"body", flag=9))
        await producer.send([Message(TOPIC, b"body")])

    one, batch = a.sent
    assert (one.producer_group, one.topic, one.default_topic, one.default_topic_queue_nums) == (
        "shop", TOPIC, "TBW102", 3,
    )  # fmt: skip
    assert (one.flag, one.reconsume_times, one.unit_mode, one.batch, one.broker_name) == (9, 0, True, False, "a")
    assert batch.batch is True


async def test_the_vip_channel_is_used_if_wanted(stage: Stage) -> None:
    async with stage.broker("a") as a:
        host, _, port = a.server.address.partition(":")
        await stage.list_broker("a", f"{host}:{int(port) + 2}")
        async with producing(stage, vip_channel_enabled=True) as producer:
            await producer.send(MESSAGE)

    assert len(a.sent) == 1


async def test_requests_are_signed_for_who_has_credentials(stage: Stage) -> None:
    async with stage.broker("a") as a, producing(stage, access_key="rocketmq2", secret_key="12345678") as producer:
        await producer.send(MESSAGE)

    assert a.bodies == [b"body"]


class Noted:
    def __init__(self) -> None:
        self.before: list[str] = []
        self.after: list[Sending] = []

    def before_send(self, sending: Sending) -> None:
        self.before.append(sending.broker_name)

    def after_send(self, sending: Sending) -> None:
        self.after.append(sending)


class Broken:
    def before_send(self, sending: Sending) -> None:
        raise ValueError("a hook of the user's")

    after_send = before_send


async def test_hooks_are_told_of_each_attempt(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    noted = Noted()
    hooks: Sequence[object] = (Broken(), noted)
    async with stage.broker("a", ResponseCode.SYSTEM_BUSY), producing(stage, hooks=hooks) as producer:
        result = await producer.send(Message(TOPIC, b"body", delay_level=1))
        await producer.send_oneway(MESSAGE)

    failed, sent, oneway = noted.after
    assert noted.before == ["a", "a", "a"]
    assert isinstance(failed.error, SystemBusy)
    assert (sent.result, sent.message_ids, sent.message_type) == (result, [result.message_id], MessageType.DELAY)
    assert (sent.body_size, sent.producer_group, oneway.result, oneway.error) == (4, "shop", None, None)
    assert "a hook failed" in caplog.text
