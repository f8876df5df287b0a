"""A store and its timer on a simulated disk, with a clock that the test moves."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import decode, encode
from kerolox.store.config import StoreConfig
from kerolox.store.log.commit_log import Append
from kerolox.store.timer.timer import Timer
from tests.store.disks import SimulatedDisk
from tests.store.stores import StillClock, all_records, config, new_store, put, run, without_threads

P = ParamSpec("P")
R = TypeVar("R")

NOW = 1_700_000_000_000
# Eight minutes instead of fourteen days.
SLOTS = 512
# Room for five units, and a blank after them.
LOG_FILE_SIZE = 52 * 5 + 30


def timer_config(**settings: object) -> StoreConfig:
    chosen: dict[str, object] = {"mapped_file_size_timer_log": LOG_FILE_SIZE, "timer_roll_window_slot": 100}
    return config(**{**chosen, **settings})


def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch)

    async def call_inline(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    monkeypatch.setattr("kerolox.store.timer.flush.in_thread", call_inline)


class Bench:
    """A store with a timer: sends messages, lets time pass and returns what was delivered."""

    def __init__(
        self, disk: SimulatedDisk | None = None, settings: StoreConfig | None = None, clock: StillClock | None = None
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.config = settings or timer_config()
        self.clock = clock or StillClock(NOW)
        self.store = new_store(self.disk, self.config, self.clock)
        self.timer = Timer(self.store, clock=self.clock, disk=self.disk, slots=SLOTS)

    def open(self) -> "Bench":
        self.store.recover()
        self.timer.recover()
        return self

    def close(self) -> None:
        run(self.timer.close())
        run(self.store.close())

    def reopened(self) -> "Bench":
        """Close the timer and store, and open them again."""
        self.close()
        return Bench(self.disk, self.config, self.clock).open()

    def send(self, name: str, topic: str = "orders", queue_id: int = 0, **properties: str) -> Message:
        """Send a message whose body and unique key are `name`; return the stored message."""
        message = Message(topic, name.encode(), to_bytes({"UNIQ_KEY": name, **properties}), queue_id)
        return self.store_diverted(message)

    def store_diverted(self, message: Message) -> Message:
        diverted = self.timer.divert(message)
        put(self.store, Append(diverted.topic, diverted.queue_id, encode(diverted)))
        return diverted

    def work(self) -> None:
        """Enqueue and delivers everything that is due now."""
        while self.timer.run_once():
            pass

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass, with `work` at each step."""
        passed = 0.0
        while passed < seconds:
            self.clock.move(min(step, seconds - passed))
            passed += step
            self.work()

    def flush(self) -> None:
        run(self.timer.flush())

    def messages(self, topic: str = "orders", queue_id: int = 0) -> list[Message]:
        return [decode(record, check_crc=True) for record in all_records(self.store, topic, queue_id)]

    def names(self, topic: str = "orders", queue_id: int = 0) -> list[str]:
        """Return the names of delivered messages, in order."""
        return [message.body.decode() for message in self.messages(topic, queue_id)]
