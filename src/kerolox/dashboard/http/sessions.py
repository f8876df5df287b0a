"""Sessions of logged-in users, and the back-off after failed logins; both in memory, limited in number."""

import ipaddress
import secrets
from collections import OrderedDict
from dataclasses import dataclass

from kerolox.dashboard.http.proxies import address_of
from kerolox.runtime.clock import Clock

SESSIONS_MAX = 1000
IDLE_SECONDS = 2 * 3600.0
LIFE_SECONDS = 12 * 3600.0

# Failed logins without a wait; each further one doubles the wait.
_FREE_FAILURES = 3
_WAIT_SECONDS_MAX = 300.0
_CLIENTS_MAX = 10_000


@dataclass(slots=True)
class Session:
    user: str
    is_reader: bool
    # The CSRF token of its forms.
    token: str
    created_at: float
    last_used_at: float


class Sessions:
    """Sessions by the random id in the browser's cookie; beyond the limit, the one idle for longest is logged out."""

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
        if now - session.last_used_at > IDLE_SECONDS or now - session.created_at > LIFE_SECONDS:
            del self._by_id[session_id]
            return None
        session.last_used_at = now
        self._by_id.move_to_end(session_id)
        return session

    def end(self, session_id: str) -> None:
        self._by_id.pop(session_id, None)


class LoginBackoff:
    """Back-off after failed logins, by client address; addresses of one IPv6 /64 network count as one client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Client → (number of failed logins, time before which the next login is refused).
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """Return how long this address has to wait before its next login is checked."""
        return max(0.0, self._failures.get(_client(address), (0, 0.0))[1] - self._clock.monotonic())

    def failed(self, address: str) -> None:
        client = _client(address)
        count = self._failures.pop(client, (0, 0.0))[0] + 1
        over = count - _FREE_FAILURES
        wait = min(_WAIT_SECONDS_MAX, 2.0**over) if over > 0 else 0.0
        while len(self._failures) >= _CLIENTS_MAX:
            self._failures.popitem(last=False)
        # Limit the count, or 2.0**over would overflow.
        self._failures[client] = (min(count, 64), self._clock.monotonic() + wait)

    def succeeded(self, address: str) -> None:
        self._failures.pop(_client(address), None)


def _client(address: str) -> str:
    """Return the key of a client: an IPv6 client can choose any address of its /64 network."""
    found = address_of(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((found, 64), strict=False))
    return str(found or address)
