"""Who is logged in, kept in memory and bounded; and who has guessed wrong, and must wait."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from kerolox.runtime.clock import Clock

SESSIONS_MAX = 1000
IDLE_SECONDS = 2 * 3600.0
LIFE_SECONDS = 12 * 3600.0

# So many wrong guesses are free; then each doubles the wait.
_FREE_GUESSES = 3
_WAIT_SECONDS_MAX = 300.0
_GUESSERS_MAX = 10_000


@dataclass(slots=True)
class Session:
    user: str
    is_reader: bool
    # What its forms carry, to show that they are ours.
    token: str
    born: float
    seen: float


class Sessions:
    """By a random id that only the browser's cookie has; when there are too many, the oldest is logged out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_id: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, user: str, *, is_reader: bool) -> str:
        while len(self._by_id) >= SESSIONS_MAX:
            self._by_id.popitem(last=False)
        now = self._clock.monotonic()
        session_id = secrets.token_urlsafe(32)
        self._by_id[session_id] = Session(user, is_reader, secrets.token_urlsafe(32), now, now)
        return session_id

    def find(self, session_id: str) -> Session | None:
        session = self._by_id.get(session_id)
        if session is None:
            return None
        now = self._clock.monotonic()
        if now - session.seen > IDLE_SECONDS or now - session.born > LIFE_SECONDS:
            del self._by_id[session_id]
            return None
        session.seen = now
        self._by_id.move_to_end(session_id)
        return session

    def end(self, session_id: str) -> None:
        self._by_id.pop(session_id, None)


class Guesses:
    """Slows down who guesses passwords, by the address they come from."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # How often an address was wrong, and until when it waits.
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """Returns how long this address has to wait before its next guess is looked at; 0 if it need not."""
        return max(0.0, self._wrong.get(address, (0, 0.0))[1] - self._clock.monotonic())

    def wrong(self, address: str) -> None:
        count = self._wrong.pop(address, (0, 0.0))[0] + 1
        over = count - _FREE_GUESSES
        wait = min(_WAIT_SECONDS_MAX, 2.0**over) if over > 0 else 0.0
        while len(self._wrong) >= _GUESSERS_MAX:
            self._wrong.popitem(last=False)
        # A count that grows no wait any more need not grow either.
        self._wrong[address] = (min(count, 64), self._clock.monotonic() + wait)

    def right(self, address: str) -> None:
        self._wrong.pop(address, None)
