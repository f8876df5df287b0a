"""The tables of the comparison of clients, and their goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.client_programs import CPP, Measured
from bench.report import Goal, Row, Section, microseconds, per_second

# Mode → client → measurements of all rounds.
Results = Mapping[str, Mapping[str, Sequence[Measured]]]

LABELS = {
    "one": "one at a time",
    "many": "256 at once",
    "auto": "256 at once, auto-batched",
    "batches": "lists of 16, one at a time",
    "push": "consumed",
}
_GOALS = {
    "many": Goal(1, is_ratio=True, is_minimum=True, than="C++"),
    "auto": Goal(2, is_ratio=True, is_minimum=True, than="C++"),
    "push": Goal(2, is_ratio=True, is_minimum=True, than="C++"),
}
_NOTES = {
    "many": "256 at once: for Java and C++ with callbacks or 256 threads, whichever was faster.",
    "auto": "The C++ client has no auto-batching: its best rate with 256 at once is shown instead. "
    "Java's client waits 10 ms for a batch.",
    "batches": "The C++ client compresses a list of 4 KiB or more as a whole, which brokers refuse; these are smaller.",
    "push": "Consumers use their defaults: ours a coroutine, Java's 20 threads, the C++ client its own number of "
    "threads; each handles one message at a time and reads its body.",
}


def clients(columns: tuple[str, ...], title: str, results: Results, failures: Sequence[str]) -> Section:
    section = Section(title, columns, than=CPP)
    for mode, by_client in results.items():
        label = LABELS[mode]
        rate = {name: [measured.rate for measured in rounds] for name, rounds in by_client.items()}
        cpu = {name: [measured.cpu_per_message for measured in rounds] for name, rounds in by_client.items()}
        section.rows += [
            Row(label, rate, per_second, is_more_better=True, goal=_GOALS.get(mode), against=CPP),
            Row(f"{label}: CPU of the client per message", cpu, microseconds, against=CPP),
        ]
    section.notes = [note for mode, note in _NOTES.items() if mode in results] + list(failures)
    return section
