"""Files of Java's timer store, and the timer messages that were put into it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).parent / "timers-5.5.0.json"

NOW = 1_794_780_000_000
# In slots of a second; small, so that messages roll.
WINDOW = 100
# Room for three units and a blank of more bytes than it needs.
FILE_SIZE = 3 * 52 + 16 + 20


@dataclass(frozen=True, slots=True)
class Entered:
    """One message as it is entered when the clock stands at `write_time`."""

    physical_offset: int
    size: int
    write_time: int
    out_millis: int
    topic: str
    delete_key: str = ""

    @property
    def line(self) -> str:
        numbers = f"{self.physical_offset} {self.size} {self.write_time} {self.out_millis} {self.topic}"
        return f"{numbers} {self.delete_key}".strip()


# Two in one slot and between them another; a recall; one that rolls a whole window and one that rolls half of it; a
# recall that rolls; small offsets and large ones; and enough of them for three files.
ENTERED = (
    Entered(0, 91, NOW, NOW + 5_000, "orders"),
    Entered(91, 400, NOW, NOW + 7_000, "bills"),
    Entered(2**40, 300, NOW + 1_000, NOW + 5_000, "orders"),
    Entered(2**40 + 300, 150, NOW + 1_000, NOW + 5_000, "orders", "orders+C000020211C160E53B934CDEA1390000"),
    Entered(2**40 + 450, 4_194_304, NOW + 2_000, NOW + 2_000 + 500_000, "far"),
    Entered(2**40 + 5_000_000, 200, NOW + 2_000, NOW + 2_000 + 110_000, "near"),
    Entered(2**40 + 6_000_000, 200, NOW + 50_000, NOW + 50_000 + 60_000, "other"),
    Entered(2**40 + 7_000_000, 200, NOW + 50_000, NOW + 50_000 + 120_000, "orders", "bare"),
)


@dataclass(frozen=True, slots=True)
class Golden:
    log: dict[str, bytes]
    # By their number; all others are zero.
    slots: dict[int, bytes]
    wheel_size: int
    checkpoint: bytes
    metrics: bytes
    last_unit: int


def save(golden: Golden) -> None:
    document = {
        "log": {name: content.hex() for name, content in golden.log.items()},
        "slots": {str(number): content.hex() for number, content in golden.slots.items()},
        "wheelSize": golden.wheel_size,
        "checkpoint": golden.checkpoint.hex(),
        "metrics": golden.metrics.decode(),
        "lastUnit": golden.last_unit,
    }
    PATH.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def load() -> Golden:
    document = json.loads(PATH.read_text())
    return Golden(
        {name: bytes.fromhex(digits) for name, digits in document["log"].items()},
        {int(number): bytes.fromhex(digits) for number, digits in document["slots"].items()},
        document["wheelSize"],
        bytes.fromhex(document["checkpoint"]),
        document["metrics"].encode(),
        document["lastUnit"],
    )
