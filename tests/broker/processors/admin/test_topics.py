"""Administration of topics."""

import errno
import json
from pathlib import Path

import pytest

from kerolox.broker.errors import InvalidParameter
from kerolox.codes import RequestCode
from kerolox.errors import AnswerError, RequestCodeNotSupported, SystemFailure, TopicNotFound
from kerolox.runtime.files import RealDisk
from kerolox.store.tables import TOPICS, JsonTable
from kerolox.wire.bodies.groups import GroupList, TopicConfigList
from kerolox.wire.bodies.topics import TopicConfig, TopicConfigTable, TopicList
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import broker as h
from tests.broker.brokers import BrokerFixture, running
from tests.broker.name_servers import FakeNameServer


def creation(topic: str, **changes: object) -> h.UpdateAndCreateTopic:
    defaults = {
        "topic": topic,
        "default_topic": "TBW102",
        "read_queue_nums": 8,
        "write_queue_nums": 4,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
    }
    return h.UpdateAndCreateTopic(**(defaults | changes))  # type: ignore[arg-type]


def saved_topics(directory: Path) -> dict[str, TopicConfig]:
    table = JsonTable(RealDisk(), directory / "config" / TOPICS, TopicConfigTable).load()
    return {} if table is None else table.topic_config_table


async def test_a_new_topic_is_registered_before_the_response(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, running(tmp_path, namesrvAddr=namesrv.address) as broker:
        namesrv.delay_seconds = 0.2
        await broker.call(creation("orders"))

        assert "orders" in namesrv.topics[-1]


async def test_a_created_topic_is_saved_before_the_response(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.call(creation("orders", order=True, topic_sys_flag=1, attributes="+message.type=FIFO"))

        assert saved_topics(tmp_path)["orders"] == TopicConfig(
            attributes={"message.type": "FIFO"},
            order=True,
            perm=6,
            read_queue_nums=8,
            topic_name="orders",
            topic_sys_flag=1,
            write_queue_nums=4,
        )


async def test_a_topic_is_changed_and_keeps_its_attributes(broker: BrokerFixture) -> None:
    await broker.call(creation("orders", attributes="+message.type=FIFO"))

    await broker.call(creation("orders", perm=4, write_queue_nums=16))

    topic = broker.broker.topics.find("orders")
    assert (topic.perm, topic.write_queue_nums, topic.attributes) == (4, 16, {"message.type": "FIFO"})


async def test_an_update_without_a_change_keeps_the_data_version(broker: BrokerFixture) -> None:
    await broker.call(creation("orders"))
    version = broker.broker.topics.data_version.counter

    await broker.call(creation("orders"))

    assert broker.broker.topics.data_version.counter == version


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"topic": " "}, InvalidParameter, "The specified topic is blank."),
        ({"topic": "../escape"}, InvalidParameter, "The specified topic: ../escape, contains illegal characters"),
        ({"topic": "t" * 128}, InvalidParameter, "t, is longer than topic max length: 127"),
        ({"topic": "%RETRY%" + "t" * 255}, InvalidParameter, "t, and it's longer than topic max length: 255"),
        ({"topic": "TBW102"}, InvalidParameter, "The topic[TBW102] is conflict with system topic."),
        ({"topic": "rmq_sys_x"}, InvalidParameter, "is conflict with system topic."),
        ({"topic": "broker-a"}, InvalidParameter, "is conflict with system topic."),
        ({"read_queue_nums": -1}, InvalidParameter, "-1 queues, at most 65536 allowed"),
        ({"write_queue_nums": 70_000}, InvalidParameter, "70000 queues"),
        ({"perm": 99}, InvalidParameter, "invalid perm 99"),
        ({"topic_filter_type": "ODD"}, SystemFailure, "topicFilterType = [ODD] value invalid"),
        ({"attributes": "+message.type=MIXED"}, InvalidParameter, "MIXED message type is not supported."),
        ({"attributes": "+queue.type=BatchCQ"}, InvalidParameter, "queue.type=BatchCQ is not supported"),
        ({"attributes": "+odd=1"}, SystemFailure, "unsupported key: odd"),
    ],
)
async def test_invalid_topics_are_refused_with_their_code(
    broker: BrokerFixture, changes: dict[str, object], error: type[AnswerError], complaint: str
) -> None:
    with pytest.raises(error) as refused:
        await broker.call(creation(**({"topic": "orders"} | changes)))  # type: ignore[arg-type]

    assert complaint in (refused.value.remark or "")
    assert broker.broker.topics.get("orders") is None


async def test_a_list_is_created_completely_or_not_at_all(broker: BrokerFixture) -> None:
    good, bad = TopicConfig(topic_name="one"), TopicConfig(topic_name="no good")
    with pytest.raises(InvalidParameter):
        await broker.call(h.UpdateAndCreateTopicList(), TopicConfigList([good, bad]).encode())
    assert broker.broker.topics.get("one") is None

    other = TopicConfig(topic_name="two", attributes={"+message.type": "DELAY"})
    await broker.call(h.UpdateAndCreateTopicList(), TopicConfigList([good, other]).encode())

    assert broker.broker.topics.find("two").attributes == {"message.type": "DELAY"}
    assert broker.broker.topics.find("one").read_queue_nums == 16


async def test_deleting_a_topic_deletes_its_messages_and_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for topic in ("orders", "others"):
            await broker.send(topic, b"body")
            broker.broker.offsets.commit("g", topic, 0, 1)
            broker.broker.pop.orders.popped("", topic, "g", 0, 0, 1000, [0])
            await broker.pull(topic, 0)
        for retry in ("%RETRY%g+orders", "%RETRY%g_orders", "%RETRY%g"):
            broker.broker.topics.create(retry, 1)

        await broker.call(h.DeleteTopicInBroker(topic="orders"))

        topics = broker.broker.topics.topics
        assert {"others", "%RETRY%g"} <= topics.keys()
        assert topics.keys().isdisjoint({"orders", "%RETRY%g+orders", "%RETRY%g_orders"})
        assert saved_topics(tmp_path).keys() == topics.keys()
        assert broker.broker.offsets.get("g", "orders", 0) is None
        assert broker.broker.offsets.get("g", "others", 0) == 1
        assert await broker.messages("orders") == []
        counted = [broker.counted("TOPIC_PUT_NUMS", topic) for topic in ("orders", "others")]
        counted += [broker.counted("GROUP_GET_NUMS", f"{topic}@group") for topic in ("orders", "others")]
        assert counted == [0, 1, 0, 1]
        assert list(broker.broker.pop.orders.table) == ["others@g"]
        assert broker.broker.slow_consumers.bytes_behind("orders", "group", 0) is None
        assert broker.broker.slow_consumers.bytes_behind("others", "group", 0) is not None

    async with running(tmp_path) as broker:
        assert broker.broker.offsets.groups_of("orders") == []
        assert (await broker.send("orders", b"again")).queue_offset == 0


@pytest.mark.parametrize("topic", ["", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"])
async def test_deleting_a_blank_or_system_topic_is_refused(broker: BrokerFixture, topic: str) -> None:
    with pytest.raises(InvalidParameter):
        await broker.call(h.DeleteTopicInBroker(topic=topic))


async def test_deleting_an_unknown_topic_is_not_an_error(broker: BrokerFixture) -> None:
    assert (await broker.call(h.DeleteTopicInBroker(topic="unknown"))).code == 0


async def test_all_topics_are_listed_at_once_or_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path, splitMetadataSize="5") as broker:
        reply = await broker.call(h.GetAllTopicConfig())
        table = TopicConfigTable.decode(reply.body)
        assert table.topic_config_table == broker.broker.topics.topics
        assert reply.fields.total_topic_num == len(table.topic_config_table)

        names: list[str] = []
        version = table.data_version.encode().decode()
        while True:
            request = h.GetAllTopicConfig(topic_seq=len(names), data_version=version, max_topic_num=100)
            piece = TopicConfigTable.decode((await broker.call(request)).body).topic_config_table
            if not piece:
                break
            assert len(piece) <= 5
            names += piece
        assert sorted(names) == sorted(table.topic_config_table)


async def test_a_topic_is_returned_or_code_17(broker: BrokerFixture) -> None:
    await broker.call(creation("orders"))

    assert json.loads((await broker.call(h.GetTopicConfig(topic="orders"))).body)["writeQueueNums"] == 4
    with pytest.raises(TopicNotFound, match="No topic in this broker"):
        await broker.call(h.GetTopicConfig(topic="unknown"))


async def test_system_topics_are_listed(broker: BrokerFixture) -> None:
    listed = TopicList.decode((await broker.call(h.GetSystemTopicListFromBroker())).body).topic_list

    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster_REPLY_TOPIC"} <= set(listed)


async def test_consumers_of_a_topic_are_known_from_heartbeats_and_offsets(broker: BrokerFixture) -> None:
    await broker.heartbeat(consumes={"online": ["orders"], "elsewhere": ["others"]})
    broker.broker.offsets.commit("offline", "orders", 0, 1)

    body = (await broker.call(h.QueryTopicConsumeByWho(topic="orders"))).body

    assert GroupList.decode(body).group_list == ["offline", "online"]


async def test_a_topic_table_that_cannot_be_saved_is_an_error_and_the_broker_goes_on(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(JsonTable, "save", full)
        with pytest.raises(SystemFailure, match="changed, but not kept over a restart"):
            await broker.call(creation("orders"))

    await broker.call(creation("others"))
    assert {"orders", "others"} <= broker.broker.topics.topics.keys()


class UpdateAndCreateStaticTopic(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC):
    topic: str


async def test_static_topics_are_not_supported(broker: BrokerFixture) -> None:
    with pytest.raises(RequestCodeNotSupported):
        await broker.call(UpdateAndCreateStaticTopic(topic="t"))


async def test_a_list_of_5000_topics_is_created(broker: BrokerFixture) -> None:
    """It is handled in portions, and the response is sent after the last one."""
    requested = [TopicConfig(topic_name=f"topic-{number}", attributes={}) for number in range(5000)]

    await broker.call(h.UpdateAndCreateTopicList(), TopicConfigList(requested).encode(), seconds=60)

    assert all(broker.broker.topics.get(topic.topic_name) == topic for topic in requested)
