"""Delay levels: how long each means, and when a message of that level is due."""

from collections.abc import Mapping

from kerolox.errors import ConfigurationError

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# What a level that does not exist counts as.
_UNKNOWN_LEVEL_MILLIS = 1000


def parse_levels(text: str) -> dict[int, int]:
    """Returns the delay of each level in milliseconds, from text such as `1s 5s 1m`; levels count from 1."""
    levels: dict[int, int] = {}
    for level, word in enumerate(text.split(), 1):
        if word[-1:] not in _UNITS or not word[:-1].isdigit():
            raise ConfigurationError(f"messageDelayLevel: {word!r} is no delay, expected a number and s, m, h or d")
        levels[level] = int(word[:-1]) * _UNITS[word[-1]]
    return levels


def due_timestamp(levels: Mapping[int, int], level: int, store_timestamp: int) -> int:
    """Returns when a message of this level is due; its queue has that instead of a tags code."""
    return store_timestamp + levels.get(level, _UNKNOWN_LEVEL_MILLIS)
