from datetime import UTC, datetime

import pytest

from kerolox.client.messages import Message
from kerolox.client.options import Options
from kerolox.client.producer.outgoing import Outgoings
from kerolox.message import batch, properties
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds


def outgoings(namespace: str | None = None) -> Outgoings:
    options = Options(namesrv_addr="127.0.0.1:9876", client_ip="127.0.0.1", namespace=namespace)
    return Outgoings(options, UniqueIds(bytes(4)), max_message_size=1000)


def sent_properties(message: Message, namespace: str | None = None) -> dict[str, str]:
    return properties.parse(outgoings(namespace).one(message).properties)


def test_each_message_has_an_id_of_its_own_unless_it_brings_one() -> None:
    made = outgoings()
    message = Message("orders", b"body")

    assert made.one(message).message_id != made.one(message).message_id
    assert made.one(Message("orders", b"body", message_id="ID1")).message_id == "ID1"


def test_fields_become_the_properties_that_java_calls_so() -> None:
    message = Message(
        "orders", b"b", tag="t", keys=["a", "b"], properties={"x": "y"}, is_awaited=False, delay_level=2, message_id="I"
    )

    assert sent_properties(message) == {
        "x": "y", "KEYS": "a b", "TAGS": "t", "WAIT": "false", "DELAY": "2", "UNIQ_KEY": "I",
    }  # fmt: skip
    assert sent_properties(Message("orders", b"b", tag="t", message_id="I")) == {"UNIQ_KEY": "I", "TAGS": "t"}


def test_delays_by_time_are_in_milliseconds() -> None:
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)

    assert sent_properties(Message("t", b"b", delay_seconds=1.5))["TIMER_DELAY_MS"] == "1500"
    assert sent_properties(Message("t", b"b", deliver_at=at))["TIMER_DELIVER_MS"] == "1700000000000"


def test_a_namespace_is_in_topic_and_properties() -> None:
    out = outgoings("ns").one(Message("orders", b"b"))

    assert out.topic == "ns%orders"
    assert properties.parse(out.properties)["INSTANCE_ID"] == "ns"


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (Message("no topic", b"b"), "topic"),
        (Message("SCHEDULE_TOPIC_XXXX", b"b"), "the system's own"),
        (Message("t", b""), "empty body"),
        (Message("t", "text"), "must be bytes"),  # type: ignore[arg-type]
        (Message("t", b"b" * 1001), "1001 bytes for topic 't', at most 1000"),
        (Message("t", b"b", properties={"UNIQ_KEY": "mine"}), "RocketMQ's own"),
        (Message("t", b"b", properties={" ": "x"}), "not blank"),
        (Message("t", b"b", properties={"x": 1}), "must be text"),  # type: ignore[dict-item]
        (Message("t", b"b", properties={"x": "a\x02b"}), "separator"),
        (Message("t", b"b", properties={"x": "a" * 40_000}), "at most 32767"),
        (Message("t", b"b", tag="a\x02b"), "separator"),
        (Message("t", b"b", keys="one"), "give a list"),
        (Message("t", b"b", keys=["a b"]), "space"),
        (Message("t", b"b", delay_level=1, delay_seconds=1), "at most one"),
    ],
)
def test_what_no_broker_would_take_is_refused_with_the_reason(message: Message, complaint: str) -> None:
    with pytest.raises(MessageIllegal, match=complaint):
        outgoings().one(message)


def test_a_batch_has_the_properties_of_each() -> None:
    out = outgoings().batch([Message("t", b"1", tag="a", flag=1), Message("t", b"2", message_id="I2")])

    first, second = batch.decode(out.body)
    assert (first.body, first.flag, properties.parse(first.properties)["TAGS"]) == (b"1", 1, "a")
    assert properties.parse(second.properties) == {"UNIQ_KEY": "I2"}
    assert out.message_id.split(",")[1] == "I2"
    assert out.properties == ""


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "no messages"),
        ([Message("t", b"b"), Message("u", b"b")], "one topic"),
        ([Message("t", b"b"), Message("t", b"b", is_awaited=False)], "all awaited"),
        ([Message("t", b"b", delay_level=1)], "delayed"),
        ([Message("%RETRY%g", b"b")], "retry topics"),
        ([Message("t", b"b" * 500)] * 2, "at most 1000"),
    ],
)
def test_what_no_broker_takes_as_a_batch_is_refused(messages: list[Message], complaint: str) -> None:
    with pytest.raises(MessageIllegal, match=complaint):
        outgoings().batch(messages)


def test_what_is_rocketmq_s_own_is_not_checked() -> None:
    out = outgoings().raw("%RETRY%g", b"b", {"RETRY_TOPIC": "t", "UNIQ_KEY": "I"}, reconsume_times=2)

    assert properties.parse(out.properties) == {"RETRY_TOPIC": "t", "UNIQ_KEY": "I"}
    assert (out.message_id, out.reconsume_times) == ("I", 2)
