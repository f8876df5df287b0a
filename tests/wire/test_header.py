"""Header declarations: names, types and required fields."""

import msgspec
import pytest

from kerolox.codes import RequestCode
from kerolox.errors import SystemFailure
from kerolox.wire.header import Empty, ExtFields, Header, Request, ext_text, named
from tests.wire.declared import REQUESTS


class Found(Header):
    next_begin_offset: int


class Sample(Request[Found], code=RequestCode.PULL_MESSAGE):
    consumer_group: str
    queue_id: int
    is_last: bool = False
    suspend_timeout_millis: int | None = None
    subscription: str | None = None
    zone_name: str | None = named("__ZONE_NAME", default=None)


WHOLE = Sample(consumer_group="g", queue_id=7, is_last=True, suspend_timeout_millis=-1, subscription="*", zone_name="z")
TEXT = {
    "consumerGroup": "g",
    "queueId": "7",
    "isLast": "true",
    "suspendTimeoutMillis": "-1",
    "subscription": "*",
    "__ZONE_NAME": "z",
}


def raw(text: str) -> ExtFields:
    return msgspec.Raw(text.encode())


def test_the_declaration_gives_the_names_in_its_order() -> None:
    assert list(WHOLE.ext().items()) == list(TEXT.items())


def test_both_serializations_are_read() -> None:
    assert Sample.decode(TEXT) == WHOLE
    assert Sample.decode(msgspec.Raw(msgspec.json.encode(TEXT))) == WHOLE


def test_none_is_not_encoded_and_absent_fields_have_defaults() -> None:
    least = Sample(consumer_group="g", queue_id=0)

    assert least.ext() == {"consumerGroup": "g", "queueId": "0", "isLast": "false"}
    assert Sample.decode({"consumerGroup": "g", "queueId": "0"}) == least


def test_a_request_class_has_its_code_and_response_class() -> None:
    assert (Sample.code, Sample.answer) == (RequestCode.PULL_MESSAGE, Found)


def test_numbers_and_booleans_may_come_bare() -> None:
    assert Sample.decode(raw('{"consumerGroup":"g","queueId":7,"isLast":true}')) == Sample(
        consumer_group="g", queue_id=7, is_last=True
    )


def test_text_may_come_as_a_number() -> None:
    """A client that guesses types sends a topic named 123 as a number."""
    found = Sample.decode(raw('{"consumerGroup":123,"queueId":"7","subscription":true}'))

    assert (found.consumer_group, found.queue_id, found.subscription) == ("123", 7, "true")


def test_null_is_absent() -> None:
    found = Sample.decode(raw('{"consumerGroup":"g","queueId":1,"isLast":null,"subscription":null}'))

    assert found == Sample(consumer_group="g", queue_id=1)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("1", True), ("false", False), ("0", False)]
)
def test_a_boolean_has_several_spellings(text: str, value: bool) -> None:
    assert Sample.decode({"consumerGroup": "g", "queueId": "1", "isLast": text}).is_last is value


def test_unknown_fields_are_not_read() -> None:
    more = {**TEXT, "AccessKey": "a", "Signature": "", "ReqT": "0"}

    assert Sample.decode(more) == WHOLE
    assert Sample.decode(msgspec.Raw(msgspec.json.encode(more))) == WHOLE


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "missing required field `consumerGroup`"),
        (None, "missing required field `consumerGroup`"),
        ({"consumerGroup": "g"}, "missing required field `queueId`"),
        ({"consumerGroup": "g", "queueId": "seven"}, "Expected `int`, got `str` - at `$.queueId`"),
        ({"consumerGroup": "g", "queueId": ""}, "Expected `int`, got `str` - at `$.queueId`"),
        ({"consumerGroup": "g", "queueId": "1", "isLast": "perhaps"}, "at `$.isLast`"),
        ({"consumerGroup": "g", "queueId": "1" * 5000}, "at `$.queueId`"),
        (msgspec.Raw(b'{"consumerGroup":"g","queueId":null}'), "missing required field `queueId`"),
        (msgspec.Raw(b'{"consumerGroup":"g","queueId":"seven"}'), "at `$.queueId`"),
        (msgspec.Raw(b'{"consumerGroup":"g","queueId":[1]}'), "at `$.queueId`"),
        (msgspec.Raw(b'{"consumerGroup":"\xff","queueId":1}'), "fields cannot be read"),
        (msgspec.Raw(b'{"consumerGroup":1e999,"queueId":1}'), "fields cannot be read: Number out of range"),
        (msgspec.Raw(b"[]"), "missing required field `consumerGroup`"),
        (msgspec.Raw(b"null"), "missing required field `consumerGroup`"),
    ],
    ids=str,
)
def test_the_error_names_the_header_and_the_field(fields: ExtFields, reason: str) -> None:
    with pytest.raises(SystemFailure) as raised:
        Sample.decode(fields)

    assert raised.value.remark is not None
    assert raised.value.remark.startswith("bad header of Sample: ")
    assert reason in raised.value.remark


def test_an_answer_without_fields_is_empty() -> None:
    assert Empty().ext() == {}
    assert Empty.decode(None) == Empty() == Empty.decode({"x": "y"})


def test_raw_fields_equal_the_text_in_the_frame() -> None:
    assert ext_text(None) == {}
    assert ext_text({"a": "1"}) == {"a": "1"}
    assert ext_text(raw('{"a":1,"b":"2","c":null,"d":{"e":[1.5]}}')) == {"a": "1", "b": "2", "d": '{"e":[1.5]}'}


def test_every_request_of_the_name_server_is_declared_under_its_own_code() -> None:
    assert all(kind.code == code for code, kind in REQUESTS.items())


@pytest.mark.parametrize("kind", REQUESTS.values(), ids=lambda kind: kind.__name__)
def test_no_two_fields_of_a_header_have_the_same_name_on_the_wire(kind: type[Request[Header]]) -> None:
    for header in (kind, kind.answer):
        assert len(set(header.__struct_encode_fields__)) == len(header.__struct_fields__)
