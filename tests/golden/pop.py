"""JSON that Java 5.5.0 stores and sends for POP, by name."""

from pathlib import Path

FILE = Path(__file__).parent / "pop-5.5.0.txt"


def parse(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def load() -> dict[str, str]:
    return parse(FILE.read_text())
