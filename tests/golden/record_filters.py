"""Records what Apache's SQL92 filter makes of the expressions in `filter_cases.py`: see README.md."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path

from tests.apache import SERVER_VERSIONS, VERSIONS
from tests.apache.processes import run_java
from tests.golden.filter_cases import EXPRESSIONS, HASHED, PROPERTIES


def path_of(version: str) -> Path:
    return Path(__file__).parent / f"filters-{SERVER_VERSIONS[version]}.jsonl"


def ask(version: str) -> list[dict[str, str]]:
    """Return Java's answers: one for each expression, then one for each text and size of a Bloom filter."""
    properties = ["".join(f"{name}\x01{value}\x02" for name, value in each.items()) for each in PROPERTIES]
    with tempfile.TemporaryDirectory() as directory:
        questions = Path(directory) / "questions"
        questions.write_text("\n\n".join("\n".join(map(_line, part)) for part in (properties, EXPRESSIONS, HASHED)))
        completed = run_java(SERVER_VERSIONS[version], "Filters.java", str(questions))
    assert completed.code == 0, completed
    answers = [base64.b64decode(line).decode() for line in completed.stdout.splitlines()]
    asked = [{"expression": expression} for expression in EXPRESSIONS]
    asked += [{"text": HASHED[number % len(HASHED)]} for number in range(len(answers) - len(EXPRESSIONS))]
    return [question | dict([answer.split("\t", 1)]) for question, answer in zip(asked, answers, strict=True)]


def _line(text: str) -> str:
    # An empty line ends a part.
    return "-" + base64.b64encode(text.encode()).decode()


def record(version: str) -> None:
    lines = [json.dumps(answer, ensure_ascii=False) for answer in ask(version)]
    path_of(version).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    for version in sys.argv[1:] or VERSIONS:
        record(version)
