"""Points in time, as an operator gives them."""

from datetime import datetime
from typing import TypeAlias

# Milliseconds since 1970, or a datetime; one without a time zone is local.
Moment: TypeAlias = datetime | int


def to_millis(moment: Moment) -> int:
    return int(moment.timestamp() * 1000) if isinstance(moment, datetime) else moment
