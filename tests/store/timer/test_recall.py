"""Recalling messages before they are delivered."""

import pytest

from kerolox.message.hosts import NO_HOST
from kerolox.message.ids import RecallHandle, encode_handle
from kerolox.message.message import Message
from kerolox.store.config import StoreConfig
from kerolox.store.errors import TimerIllegal
from kerolox.store.timer.recall import handle_of, is_recalled, recall
from tests.store.timer.timers import NOW, Bench, timer_config


def recalled(handle: str, config: StoreConfig | None = None, now: int = NOW, topic: str = "orders") -> Message:
    hosts = {"born_host": NO_HOST, "store_host": NO_HOST}
    return recall(handle, config or StoreConfig(), now, topic=topic, broker_name="b", producer_group="g", **hosts)


def handle(topic: str = "orders", broker: str = "b", deliver: str = str(NOW + 5000), unique_id: str = "a") -> str:
    return encode_handle(RecallHandle(topic, broker, deliver, unique_id))


@pytest.mark.parametrize("with_topic", [False, True])
@pytest.mark.parametrize("delay", [5, 250])
def test_only_the_recalled_message_is_not_delivered(with_topic: bool, delay: int) -> None:
    bench = Bench(settings=timer_config(append_topic_for_timer_delete_key=with_topic)).open()
    stored = bench.send("a", TIMER_DELAY_SEC=str(delay))
    bench.send("b", TIMER_DELAY_SEC=str(delay))
    bench.pass_time(2)
    mark = recalled(handle_of(stored, "b") or "", bench.config, bench.clock.millis())
    assert bench.store_diverted(mark).get("TIMER_OUT_MS") == stored.get("TIMER_OUT_MS")
    bench.pass_time(1)
    assert bench.timer.pending("orders") == 1
    again = bench.reopened()
    again.pass_time(delay + 10)

    assert again.names() == ["b"]
    assert again.timer.pending("orders") == 0


def test_a_recall_without_a_message_changes_nothing(bench: Bench) -> None:
    stored = bench.send("a", TIMER_DELAY_SEC="5")
    wrong = handle(deliver=str(int(stored.get("TIMER_OUT_MS") or 0) + 1), unique_id="b")
    bench.store_diverted(recalled(wrong))
    bench.pass_time(10)
    assert bench.names() == ["a"]
    assert bench.timer.pending("orders") == 0


def test_a_recall_stored_in_time_is_effective_although_it_is_read_late(bench: Bench) -> None:
    """As after a restart; Java would deliver the message."""
    stored = bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    for number in range(1000):
        bench.send(f"other {number}", "bills", TIMER_DELAY_SEC="50")
    bench.store_diverted(recalled(handle_of(stored, "b") or ""))
    bench.clock.move(20)
    bench.work()
    assert bench.names() == []


def test_a_recall_enqueued_after_the_delivery_is_dropped(bench: Bench) -> None:
    stored = bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    bench.config.timer_stop_enqueue = True
    bench.store_diverted(recalled(handle_of(stored, "b") or ""))
    bench.pass_time(10)
    bench.config.timer_stop_enqueue = False
    bench.pass_time(10)
    assert bench.names() == ["a"]
    assert bench.timer.pending("orders") == 0


def test_the_delete_marker_equals_that_of_java() -> None:
    mark = recalled(handle())
    assert (mark.topic, mark.queue_id, mark.body, mark.born_timestamp) == ("orders", 0, b"0", NOW)
    assert mark.parsed == {
        "TAGS": "_RECALL_TAG_",
        "TIMER_DEL_UNIQKEY": "orders+a",
        "UNIQ_KEY": "a",
        "TIMER_DELIVER_MS": str(NOW + 5000),
        "BORN_TIMESTAMP": str(NOW),
        "PGROUP": "g",
    }
    unnamed = recalled(handle(), StoreConfig(append_topic_for_timer_delete_key=False))
    assert unnamed.get("TIMER_DEL_UNIQKEY") == "a"


def test_a_handle_of_one_topic_does_not_recall_a_message_of_another(bench: Bench) -> None:
    stored = bench.send("a", "bills", TIMER_DELAY_SEC="5")
    forged = handle(topic="orders", deliver=str(int(stored.get("TIMER_OUT_MS") or 0) + 1), unique_id="a")

    bench.store_diverted(recalled(forged))
    bench.pass_time(10)

    assert bench.names("bills") == ["a"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("???", "recall handle is invalid"),
        ("", "recall handle is invalid"),
        (handle(topic="bills"), "recall failed, topic not match"),
        (handle(broker="c"), "recall failed, broker service not available"),
        (handle(deliver=str(NOW)), "recall failed, timestamp invalid"),
        (handle(deliver=str(NOW + 259_200_000)), "recall failed, timestamp invalid"),
        (handle(deliver="soon"), "recall failed, timestamp invalid"),
        (handle(deliver="9" * 30), "recall failed, timestamp invalid"),
    ],
)
def test_an_invalid_handle_is_refused_in_the_words_of_java(text: str, reason: str) -> None:
    with pytest.raises(TimerIllegal, match=reason):
        recalled(text)


def test_only_pending_messages_get_a_handle(bench: Bench) -> None:
    timer_message = bench.timer.divert(Message("orders", b"", b"UNIQ_KEY\x01a\x02TIMER_DELAY_SEC\x015\x02"))
    assert handle_of(timer_message, "b") == handle(deliver=str(NOW + 4001))
    assert handle_of(Message("orders", b"", b"UNIQ_KEY\x01a\x02"), "b") is None
    retried = bench.timer.divert(Message("%RETRY%g", b"", b"UNIQ_KEY\x01a\x02TIMER_DELAY_SEC\x015\x02"))
    assert handle_of(retried, "b") is None


def test_a_message_is_recalled_by_its_key_or_by_topic_and_key() -> None:
    assert is_recalled("t", b"k", {b"k"})
    assert is_recalled("t", b"k", {b"t+k"})
    assert not is_recalled("t", b"k", {b"u+k"})
    assert not is_recalled("t", b"", {b""})
