"""Compares two outputs of mqadmin, allowing for the order of Java's hash maps and for versions."""

from __future__ import annotations

import json
import re
from enum import Enum

_NUMERIC_KEY = re.compile(r"([{,]\s*)(\d+):")
_FAQ_LINKS = re.compile(r"https?://rocketmq\.apache\.org/docs/(faq/|bestPractice/06FAQ)")


class Likeness(Enum):
    """Ordered from best to worst; only the last one is a failure."""

    SAME = "same"
    OTHER_LINK = "same, but the FAQ link is that of 5.x"
    OTHER_ORDER = "same, in another order"
    DIFFERENT = "DIFFERENT"


def likeness(apache: str, ours: str) -> Likeness:
    """Compares with increasing tolerance: exactly, without the link at the end of errors, without order.

    Brokers and topics come out of Apache's NameServer in the order of a hash map, and so does what mqadmin
    prints of them; nobody may rely on it, and ours are in the order of their registration.
    """
    if apache == ours:
        return Likeness.SAME
    apache, ours = _FAQ_LINKS.sub("FAQ", apache), _FAQ_LINKS.sub("FAQ", ours)
    if apache == ours:
        return Likeness.OTHER_LINK
    if _ordered(apache) == _ordered(ours):
        return Likeness.OTHER_ORDER
    return Likeness.DIFFERENT


def _ordered(printed: str) -> str:
    """Returns the text with sorted JSON lists, or else sorted lines."""
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
