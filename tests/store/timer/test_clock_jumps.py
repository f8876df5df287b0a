"""Timer messages are delivered by the current clock, whatever it showed before."""

import logging
import random
from collections import Counter

import pytest

from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.store.timer.divert import TIMER_TOPIC
from tests.store.disks import SimulatedDisk
from tests.store.stores import run
from tests.store.timer.timers import NOW, Bench

MINUTE, HOUR, YEARS = 60, 3600, 10 * 365 * 86_400
JUMPS = [MINUTE, HOUR, YEARS]


@pytest.mark.parametrize("restarts", ["none", "while ahead", "after", "both"])
@pytest.mark.parametrize("seconds", JUMPS)
def test_timers_continue_after_the_clock_was_ahead(bench: Bench, seconds: int, restarts: str) -> None:
    bench.send("before", TIMER_DELAY_SEC="40")
    bench.pass_time(2)
    bench.clock.step(seconds)
    bench.pass_time(10)
    if restarts in ("while ahead", "both"):
        bench = bench.reopened()
    bench.send("while ahead", TIMER_DELAY_SEC="15")
    bench.pass_time(10)
    bench.clock.step(-seconds)
    if restarts in ("after", "both"):
        bench = bench.reopened()
    bench.work()
    bench.send("after", TIMER_DELAY_SEC="5")
    bench.pass_time(4)
    assert "after" not in bench.names()
    bench.pass_time(2)
    assert "after" in bench.names()
    bench = bench.reopened()
    bench.pass_time(60)

    assert sorted(bench.names()) == ["after", "before", "while ahead"]
    assert bench.timer.pending("orders") == 0
    assert bench.timer.is_caught_up


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("seconds", JUMPS)
def test_a_clock_that_is_set_back_prolongs_no_delay(bench: Bench, seconds: int, is_restarted: bool) -> None:
    bench.pass_time(100)
    bench.send("waiting", TIMER_DELAY_SEC="30")
    bench.pass_time(5)
    bench.clock.step(-seconds)
    if is_restarted:
        bench = bench.reopened()
    bench.work()
    bench.send("new", TIMER_DELAY_SEC="5")
    bench.pass_time(6)
    assert bench.names() == ["new"]
    bench.pass_time(17)
    assert bench.names() == ["new"]
    bench.pass_time(5)
    assert bench.names() == ["new", "waiting"]
    bench.pass_time(200)
    assert bench.names() == ["new", "waiting"]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_message_for_a_named_time_is_delivered_then_by_the_clock_that_was_set_back(
    bench: Bench, is_restarted: bool
) -> None:
    bench.pass_time(100)
    due = bench.clock.millis() + 20_000
    bench.send("at that time", TIMER_DELIVER_MS=str(due))
    bench.pass_time(5)
    bench.clock.step(-60)
    if is_restarted:
        bench = bench.reopened()
    bench.pass_time(74)
    assert bench.names() == []
    bench.pass_time(2)
    (message,) = bench.messages()
    assert due <= message.store_timestamp <= due + 1000


def test_a_message_in_a_slot_ahead_of_the_clock_is_delivered_at_its_time(bench: Bench) -> None:
    due = NOW + 90_000
    bench.send("ahead", TIMER_DELIVER_MS=str(due))
    bench.clock.step(MINUTE)
    bench.pass_time(5)
    bench.clock.step(-MINUTE)
    bench.pass_time(80)
    assert bench.names() == []
    bench.pass_time(10)
    assert [message.store_timestamp for message in bench.messages()] == [due]


def test_a_message_beyond_the_maximum_delay_of_the_current_clock_is_not_kept_for_years(bench: Bench) -> None:
    bench.clock.step(YEARS)
    bench.work()
    bench.send("in ten years", TIMER_DELIVER_MS=str(bench.clock.millis() + 30_000))
    bench.work()
    bench.clock.step(-YEARS)
    bench.pass_time(29)
    assert bench.names() == []
    bench.pass_time(3)
    assert bench.names() == ["in ten years"]


def test_messages_delivered_while_the_clock_was_ahead_are_not_delivered_again(bench: Bench) -> None:
    for delay in range(1, 90):
        bench.send(f"{delay}", TIMER_DELAY_SEC=str(delay))
    bench.pass_time(2)
    bench.flush()
    bench.clock.step(MINUTE)
    bench.pass_time(10)
    early = len(bench.names())
    bench.flush()
    bench.clock.step(-MINUTE)
    bench.work()
    assert len(bench.names()) == early
    for _ in range(5):
        bench = bench.reopened()
        bench.pass_time(30)

    assert Counter(bench.names()) == Counter(f"{delay}" for delay in range(1, 90))


def test_a_recall_stored_while_the_clock_was_ahead_is_effective(bench: Bench) -> None:
    bench.clock.step(HOUR)
    bench.work()
    bench.send("recalled", TIMER_DELAY_SEC="30")
    bench.work()
    due = str(bench.clock.millis() + 30_000)
    bench.send("recall", TIMER_DEL_UNIQKEY="recalled", TIMER_DELIVER_MS=due)
    bench.work()
    bench.clock.step(-HOUR)
    bench.pass_time(60)

    assert bench.names() == []
    assert bench.timer.pending("orders") == 0


def test_messages_not_enqueued_before_the_clock_was_set_back_get_their_delay(bench: Bench) -> None:
    bench.clock.step(HOUR)
    bench.work()
    bench.config.timer_stop_enqueue = True
    bench.send("a", TIMER_DELAY_SEC="20")
    bench.clock.step(-HOUR)
    bench.work()
    bench.config.timer_stop_enqueue = False
    bench.pass_time(19)
    assert bench.names() == []
    bench.pass_time(3)
    assert bench.names() == ["a"]


def test_a_half_delivered_slot_is_finished_before_the_clock_is_followed(bench: Bench) -> None:
    for number in range(300):
        bench.send(f"{number}", TIMER_DELIVER_MS=str(NOW + 30_000))
    bench.work()
    bench.clock.step(MINUTE)
    while not bench.names():
        bench.timer.run_once()
    assert len(bench.names()) < 300
    bench.clock.step(-MINUTE)
    bench.pass_time(60)
    again = bench.reopened()
    again.pass_time(60)

    assert again.names() == [f"{number}" for number in range(300)]


def test_a_step_back_is_reported_once_with_numbers(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.pass_time(10)
    with caplog.at_level(logging.WARNING):
        bench.clock.step(-HOUR)
        bench.work()
        bench.pass_time(20)

    (line,) = [record.getMessage() for record in caplog.records]
    assert "the clock was set back" in line
    assert f"{HOUR} s later" in line


def test_a_step_back_of_a_second_or_two_moves_nothing(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.pass_time(10)
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    bench.clock.step(-2)
    bench.pass_time(6.9, 0.1)
    assert bench.names() == []
    bench.pass_time(0.2, 0.1)
    assert bench.names() == ["a"]
    assert not caplog.records
    assert len(bench.messages(TIMER_TOPIC)) == 1


def test_the_lag_of_the_timer_is_measured_by_the_current_clock(bench: Bench) -> None:
    bench.clock.step(YEARS)
    bench.work()
    bench.clock.step(-YEARS)
    bench.work()
    bench.config.timer_stop_dequeue = True
    bench.pass_time(30)
    assert 29_000 <= bench.timer.behind_millis <= 31_000


@pytest.mark.parametrize("seed", range(20))
def test_random_jumps_and_restarts_deliver_each_message_once(seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench().open()
    sent = 0
    ahead = 0
    for _ in range(60):
        for _ in range(chance.randrange(3)):
            bench.send(f"{sent}", TIMER_DELAY_SEC=str(chance.randrange(1, 180)))
            sent += 1
        bench.pass_time(chance.choice([0.3, 1, 5, 20]))
        if chance.random() < 0.3:
            target = chance.choice([0, 0, MINUTE, -MINUTE, HOUR, -HOUR, 86_400, -86_400])
            bench.clock.step(target - ahead)
            ahead = target
        if chance.random() < 0.3:
            bench.flush()
        if chance.random() < 0.2:
            bench = bench.reopened()
    bench.clock.step(-ahead)
    bench.pass_time(400, 5)

    assert Counter(bench.names()) == Counter(f"{number}" for number in range(sent))
    assert bench.timer.pending("orders") == 0


def test_a_clock_set_back_between_computing_and_storing_a_time_prolongs_no_delay(bench: Bench) -> None:
    bench.clock.step(YEARS)
    message = Message("orders", b"a", to_bytes({"UNIQ_KEY": "a", "TIMER_DELAY_SEC": "20"}))
    diverted = bench.timer.divert(message)
    bench.clock.step(-YEARS)
    bench.store_diverted(diverted)
    bench.pass_time(19)
    assert bench.names() == []
    bench.pass_time(3)
    assert bench.names() == ["a"]


def test_a_kill_between_writing_the_timer_log_and_rewinding_the_checkpoint_loses_nothing(
    bench: Bench,
) -> None:
    bench.clock.step(MINUTE)
    bench.work()
    bench.flush()
    bench.clock.step(-MINUTE)
    bench.work()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    run(bench.store.flusher.flush())
    # Like an interrupted flush.
    bench.timer.log.flush(bench.timer.log.end)
    assert isinstance(bench.disk, SimulatedDisk)

    again = Bench(bench.disk.after_kill(), bench.config, bench.clock).open()
    again.pass_time(7)

    assert again.names() == ["a"]


def test_a_message_enqueued_after_a_jump_of_years_is_delivered(bench: Bench) -> None:
    """Slot are finished after messages are enqueued, so its slot is still open ten years later."""
    bench.send("overdue", TIMER_DELAY_SEC="30")
    bench.clock.step(YEARS)
    bench.work()
    assert bench.names() == ["overdue"]
