"""Reads what Java's broker tells Prometheus: the names of its metrics, and of their labels."""

import re
from pathlib import Path

# OpenTelemetry's own, and the bounds of a histogram.
_LEFT_OUT = {"otel_scope_name", "le"}


def path(version: str) -> Path:
    return Path(__file__).parent / f"metrics-{version}.txt"


def load(version: str) -> dict[str, set[str]]:
    """Return the labels of each metric."""
    return {name: set(labels) for name, *labels in map(str.split, path(version).read_text().splitlines())}


def names(page: str) -> dict[str, set[str]]:
    """Return the same of a page as a broker answers it."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(rocketmq_\w+)\{(.*)\} ", page, re.MULTILINE):
        if not name.endswith(("_count", "_sum")):
            told = found.setdefault(name.removesuffix("_bucket"), set())
            told.update(set(re.findall(r'(\w+)="', labels)) - _LEFT_OUT)
    return found
