"""How alike two outputs of mqadmin are, where Apache's own depends on a hash map or on its version."""

from __future__ import annotations

import json
import re
from enum import Enum

_NUMERIC_KEY = re.compile(r"([{,]\s*)(\d+):")
_FAQ_LINKS = re.compile(r"https?://rocketmq\.apache\.org/docs/(faq/|bestPractice/06FAQ)")


class Likeness(Enum):
    """From the best to the worst; only the last is a fault."""

    SAME = "same"
    OTHER_LINK = "same, but the FAQ link is that of 5.x"
    OTHER_ORDER = "same, in another order"
    DIFFERENT = "DIFFERENT"


def likeness(apache: str, ours: str) -> Likeness:
    """Compares ever more leniently: to the letter, but for the link that errors end with, but for order.

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
    """The text with everything a hash map may have shuffled put in order: lists in JSON, else lines."""
    if not printed.startswith("{"):
        return "\n".join(sorted(printed.splitlines()))
    # Java's JSON leaves the broker ids that serve as keys unquoted.
    value = json.loads(_NUMERIC_KEY.sub(r'\1"\2":', printed))
    return json.dumps(_sorted_lists(value), sort_keys=True)


def _sorted_lists(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted_lists(member) for key, member in value.items()}
    if isinstance(value, list):
        return sorted((_sorted_lists(member) for member in value), key=lambda it: json.dumps(it, sort_keys=True))
    return value
