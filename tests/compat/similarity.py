"""Compares two outputs of mqadmin; the order of Java's hash maps and the FAQ links of releases may differ."""

from __future__ import annotations

import json
import re
from enum import Enum

_NUMERIC_KEY = re.compile(r"([{,]\s*)(\d+):")
_FAQ_LINKS = re.compile(r"https?://rocketmq\.apache\.org/docs/(faq/|bestPractice/06FAQ)")


class Similarity(Enum):
    """Ordered from best to worst; only the last one is a failure."""

    SAME = "same"
    OTHER_LINK = "same, but the FAQ link is that of 5.x"
    OTHER_ORDER = "same, in another order"
    DIFFERENT = "DIFFERENT"


def similarity(apache: str, ours: str) -> Similarity:
    """Compare with increasing tolerance: exactly, without the FAQ link of errors, without order.

    Apache's NameServer returns brokers and topics in the order of a hash map, and mqadmin prints them in this order.
    Clients must not rely on it; ours returns them in the order of their registration.
    """
    if apache == ours:
        return Similarity.SAME
    apache, ours = _FAQ_LINKS.sub("FAQ", apache), _FAQ_LINKS.sub("FAQ", ours)
    if apache == ours:
        return Similarity.OTHER_LINK
    if _ordered(apache) == _ordered(ours):
        return Similarity.OTHER_ORDER
    return Similarity.DIFFERENT


def _ordered(printed: str) -> str:
    """Return the text with sorted JSON lists, or else sorted lines."""
    if not printed.startswith("{"):
        return "\n".join(sorted(printed.splitlines()))
    # Java's JSON leaves broker ids unquoted as keys.
    value = json.loads(_NUMERIC_KEY.sub(r'\1"\2":', printed))
    return json.dumps(_sorted_lists(value), sort_keys=True)


def _sorted_lists(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted_lists(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted((_sorted_lists(member) for member in value), key=lambda it: json.dumps(it, sort_keys=True))
    return value
