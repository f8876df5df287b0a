"""Which messages are diverted to the timer topic, and how."""

import pytest

from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.store.config import StoreConfig
from kerolox.store.delay.delay_levels import DELAY_MARK, SCHEDULE_TOPIC, diversion, parse_levels
from kerolox.store.errors import TimerIllegal, TimerRefused
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.timer.divert import ANY_TIMER, TIMER_TOPIC, divert, out_time, precision

NOW = 1_700_000_000_400


def message(sys_flag: int = 0, topic: str = "orders", /, **properties: str) -> Message:
    return Message(topic, b"body", to_bytes(properties), queue_id=3, sys_flag=sys_flag)


def diverted(sys_flag: int = 0, topic: str = "orders", /, **properties: str) -> Message:
    return divert(message(sys_flag, topic, **properties), StoreConfig(), NOW)


def test_a_message_without_a_time_is_returned_unchanged() -> None:
    plain = message(TAGS="red", KEYS="TIMER_DELAY")
    assert divert(plain, StoreConfig(), NOW) is plain
    similar = message(NO_TIMER_DELAY_SEC="5")
    assert divert(similar, StoreConfig(), NOW) is similar


def test_a_message_with_a_time_goes_to_the_timer_topic_and_keeps_its_properties() -> None:
    found = diverted(TAGS="red", TIMER_DELAY_SEC="5")
    assert (found.topic, found.queue_id, found.body) == (TIMER_TOPIC, 0, b"body")
    assert found.properties == (
        b"TAGS\x01red\x02TIMER_DELAY_SEC\x015\x02TIMER_OUT_MS\x011700000005000\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"
    )


def test_a_missing_last_separator_of_properties_is_added() -> None:
    found = divert(Message("orders", b"", b"TIMER_DELAY_SEC\x015"), StoreConfig(), NOW)
    assert found.properties.startswith(b"TIMER_DELAY_SEC\x015\x02TIMER_OUT_MS\x01")


def test_a_real_topic_set_by_the_sender_is_replaced() -> None:
    found = diverted(TIMER_DELAY_SEC="5", REAL_TOPIC="other", REAL_QID="9")
    assert found.properties.count(b"REAL_TOPIC") == 1
    assert (found.get("REAL_TOPIC"), found.get("REAL_QID")) == ("orders", "3")


@pytest.mark.parametrize(
    ("properties", "out"),
    [
        ({"TIMER_DELAY_SEC": "5"}, NOW + 4600),
        ({"TIMER_DELAY_MS": "5000"}, NOW + 4600),
        ({"TIMER_DELAY_MS": "600"}, NOW - 400),
        ({"TIMER_DELAY_MS": "601"}, NOW + 600),
        ({"TIMER_DELIVER_MS": str(NOW + 1)}, NOW - 400),
        ({"TIMER_DELAY_SEC": "5", "TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": str(NOW + 50_000)}, NOW + 4600),
        ({"TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": str(NOW + 50_000)}, NOW + 8600),
        ({"TIMER_DELAY_SEC": "+5"}, NOW + 4600),
        ({"TIMER_DELAY_SEC": "005", "DELAY": "0"}, NOW + 4600),
        ({"TIMER_DELAY_SEC": "0" * 5000 + "5"}, NOW + 4600),
        ({"TIMER_DELAY_SEC": "259200"}, NOW + 259_199_600),
    ],
)
def test_seconds_take_precedence_over_milliseconds_and_those_over_a_time(properties: dict[str, str], out: int) -> None:
    assert diverted(**properties).get("TIMER_OUT_MS") == str(out)


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "-5"},
        {"TIMER_DELIVER_MS": str(NOW)},
        {"TIMER_DELIVER_MS": "0"},
        {"TIMER_DELIVER_MS": str(NOW + 5000), "TIMER_OUT_MS": "1"},
    ],
)
def test_a_message_that_is_due_is_not_diverted(properties: dict[str, str]) -> None:
    plain = message(**properties)
    assert divert(plain, StoreConfig(), NOW) is plain


def test_half_messages_and_messages_that_roll_are_not_diverted() -> None:
    for plain in (
        message(sysflag.PREPARED, TIMER_DELAY_SEC="5"),
        message(sysflag.ROLLBACK, TIMER_DELAY_SEC="5"),
        message(0, TIMER_TOPIC, TIMER_DELAY_SEC="5"),
        message(0, "RMQ_SYS_TRANS_HALF_TOPIC", TIMER_DELAY_SEC="5"),
    ):
        assert divert(plain, StoreConfig(), NOW) is plain
    assert diverted(sysflag.COMMIT, TIMER_DELAY_SEC="5").topic == TIMER_TOPIC


def test_a_delay_level_takes_precedence() -> None:
    found = diverted(TAGS="red", DELAY="3", TIMER_DELAY_SEC="5", TIMER_DELAY_MS="1", TIMER_DELIVER_MS="2")
    assert (found.topic, found.queue_id) == ("orders", 3)
    assert found.parsed == {"TAGS": "red", "DELAY": "3"}
    assert diverted(DELAY="9" * 5000, TIMER_DELAY_SEC="5").topic == "orders"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"TIMER_DELAY_SEC": "soon"}, "TIMER_DELAY_SEC is b'soon', expected a number"),
        ({"TIMER_DELAY_SEC": "1_0"}, "expected a number"),
        ({"TIMER_DELAY_MS": " 5"}, "expected a number"),
        ({"TIMER_DELAY_MS": "1e3"}, "expected a number"),
        ({"TIMER_DELIVER_MS": "9" * 20}, "expected a number"),
        ({"TIMER_DELIVER_MS": "9" * 5000}, "expected a number"),
        ({"TIMER_DELAY_SEC": str(2**63 - 1)}, "out of range"),
        ({"TIMER_DELAY_SEC": "259201"}, "a delay of 259201000 ms, at most 259200 s allowed"),
        ({"TIMER_DELIVER_MS": str(NOW), "TIMER_DEL_UNIQKEY": "x"}, "recall is too late"),
    ],
)
def test_an_invalid_time_is_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(TimerIllegal, match=reason):
        diverted(**properties)


def test_disabled_timers_refuse_even_invalid_times() -> None:
    config = StoreConfig(timer_wheel_enable=False)
    for value in ("5", "soon", "0"):
        with pytest.raises(TimerRefused, match="timerWheelEnable=false"):
            divert(message(TIMER_DELAY_SEC=value), config, NOW)
    assert divert(message(), config, NOW).topic == "orders"


def test_congestion_is_checked_for_the_slot() -> None:
    asked: list[int] = []

    def is_congested(out: int) -> bool:
        asked.append(out)
        return True

    with pytest.raises(TimerRefused, match="too many messages are due at 1700000005000"):
        divert(message(TIMER_DELAY_SEC="5"), StoreConfig(), NOW, is_congested)
    assert asked == [NOW + 4600]


@pytest.mark.parametrize(
    ("configured", "used"),
    [(1, 100), (100, 100), (199, 100), (200, 200), (499, 200), (500, 500), (1000, 1000), (5000, 1000)],
)
def test_the_precision_is_one_of_four(configured: int, used: int) -> None:
    assert precision(StoreConfig(timer_precision_ms=configured)) == used


def test_messages_are_due_at_the_end_of_their_slot() -> None:
    for deliver in range(1_700_000_000_000, 1_700_000_002_100, 7):
        for length in (100, 200, 500, 1000):
            out = out_time(deliver, length)
            assert out % length == 0
            assert out < deliver <= out + length


def test_the_encoder_diverts_by_level_or_by_time() -> None:
    config = StoreConfig()
    levels = parse_levels(config.message_delay_level)
    encoder = MessageEncoder({DELAY_MARK: diversion(levels), ANY_TIMER: lambda sent: divert(sent, config, NOW)})
    assert encoder.encode(message()).topic == "orders"
    assert encoder.encode(message(TIMER_DELAY_SEC="5")).topic == TIMER_TOPIC
    assert encoder.encode(message(TIMER_DELAY_SEC="5", DELAY="3")).topic == SCHEDULE_TOPIC
