"""Which brokers heed a time of delivery: those before 5.0 store it, deliver at once, and do not say so."""

from collections.abc import Iterable
from typing import Final

from kerolox.client.errors import NoRoute
from kerolox.client.session import Session
from kerolox.codes import Version
from kerolox.wire.headers.offsets import GetMaxOffset

# The first release with timers.
HEEDED_SINCE: Final[int] = Version.V5_0_0


class TimeIgnored(Exception):
    """A time that a broker would not heed; names the column that has it, and the one that every broker knows."""


async def check_heeded(session: Session, topic: str, brokers: Iterable[str], column: str, seconds: float) -> None:
    """TimeIgnored names those that are too old; a KeroloxError if one cannot be asked."""
    older = []
    for name in sorted(brokers):
        address = session.routes.address(name)
        if address is None:
            raise NoRoute(f"broker {name!r} has no master now")
        # Whatever a broker answers, it says with it which release it is of.
        answer = await session.ask(address, GetMaxOffset(topic=topic, queue_id=0), timeout_seconds=seconds)
        if answer.version < HEEDED_SINCE:
            older.append(name)
    if older:
        raise TimeIgnored(
            f"column {column} needs brokers of 5.0 or newer, and topic {topic!r} is on older ones "
            f"({', '.join(older)}), which would deliver its rows at once: use the column delayLevel instead"
        )
