from datetime import UTC, datetime

import pytest

from kerolox.client.messages import Message
from kerolox.client.options import Options
from kerolox.client.producer.encoding import MessageEncoder
from kerolox.message import properties
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds
from kerolox.message.records import batch


def encoder(namespace: str | None = None) -> MessageEncoder:
    options = Options(namesrv_addr="127.0.0.1:9876", client_ip="127.0.0.1", namespace=namespace)
    return MessageEncoder(options, UniqueIds(bytes(4)), max_message_size=1000)


def sent_properties(message: Message, namespace: str | None = None) -> dict[str, str]:
    return properties.parse(encoder(namespace).encode(message).properties)


def test_a_message_id_is_generated_unless_given() -> None:
    shared = encoder()
    message = Message("orders", b"body")

    assert shared.encode(message).message_id != shared.encode(message).message_id
    assert shared.encode(Message("orders", b"body", message_id="ID1")).message_id == "ID1"


def test_fields_become_java_s_properties() -> None:
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
    out = encoder("ns").encode(Message("orders", b"b"))

    assert out.topic == "ns%orders"
    assert properties.parse(out.properties)["INSTANCE_ID"] == "ns"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("no topic", b"b"), "topic"),
        (Message("SCHEDULE_TOPIC_XXXX", b"b"), "is a system topic"),
        (Message("t", b""), "is empty"),
        (Message("t", "text"), "must be bytes"),  # type: ignore[arg-type]
        (Message("t", b"b" * 1001), "1001 bytes for topic 't' exceeds the limit of 1000"),
        (Message("t", b"b", properties={"UNIQ_KEY": "mine"}), "reserved by RocketMQ"),
        (Message("t", b"b", properties={" ": "x"}), "non-blank"),
        (Message("t", b"b", properties={"x": 1}), "must be non-blank strings"),  # type: ignore[dict-item]
        (Message("t", b"b", properties={"x": "a\x02b"}), "separator"),
        (Message("t", b"b", properties={"x": "a" * 40_000}), "the limit of 32767"),
        (Message("t", b"b", tag="a\x02b"), "separator"),
        (Message("t", b"b", keys="one"), "must be a list"),
        (Message("t", b"b", keys=["a b"]), "space"),
        (Message("t", b"b", delay_level=1, delay_seconds=1), "at most one"),
    ],
)
def test_an_invalid_message_is_refused_with_the_reason(message: Message, error: str) -> None:
    with pytest.raises(MessageIllegal, match=error):
        encoder().encode(message)


def test_a_batch_has_the_properties_of_each() -> None:
    out = encoder().encode_batch([Message("t", b"1", tag="a", flag=1), Message("t", b"2", message_id="I2")])

    first, second = batch.decode(out.body)
    assert (first.body, first.flag, properties.parse(first.properties)["TAGS"]) == (b"1", 1, "a")
    assert properties.parse(second.properties) == {"UNIQ_KEY": "I2"}
    assert out.message_id.split(",")[1] == "I2"
    assert out.properties == ""


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], "at least one message"),
        ([Message("t", b"b"), Message("u", b"b")], "the same topic"),
        ([Message("t", b"b"), Message("t", b"b", is_awaited=False)], "the same is_awaited"),
        ([Message("t", b"b", delay_level=1)], "delayed"),
        ([Message("%RETRY%g", b"b")], "retry topic"),
        ([Message("t", b"b" * 500)] * 2, "the limit of 1000"),
    ],
)
def test_an_invalid_batch_is_refused_with_the_reason(messages: list[Message], error: str) -> None:
    with pytest.raises(MessageIllegal, match=error):
        encoder().encode_batch(messages)


def test_encode_unchecked_does_not_validate() -> None:
    out = encoder().encode_unchecked("%RETRY%g", b"b", {"RETRY_TOPIC": "t", "UNIQ_KEY": "I"}, reconsume_times=2)

    assert properties.parse(out.properties) == {"RETRY_TOPIC": "t", "UNIQ_KEY": "I"}
    assert (out.message_id, out.reconsume_times) == ("I", 2)
