from kerolox.dashboard.http import sessions
from kerolox.dashboard.http.sessions import LoginBackoff, Sessions
from kerolox.runtime.clock import ManualClock


async def test_a_session_ends_when_idle_or_old() -> None:
    clock = ManualClock()
    known = Sessions(clock)
    idle, busy = known.begin("ada", is_reader=False), known.begin("bob", is_reader=False)

    for _ in range(5):
        await clock.advance(sessions.IDLE_SECONDS - 1)
        assert known.find(busy) is not None
    assert known.find(idle) is None

    await clock.advance(sessions.IDLE_SECONDS - 1)
    await clock.advance(sessions.LIFE_SECONDS)
    assert known.find(busy) is None


def test_the_number_of_sessions_is_limited() -> None:
    known = Sessions(ManualClock())
    first = known.begin("ada", is_reader=False)
    last = [known.begin("ada", is_reader=False) for _ in range(sessions.SESSIONS_MAX)][-1]

    assert len(known) == sessions.SESSIONS_MAX
    assert known.find(first) is None
    assert known.find(last) is not None


def test_addresses_of_one_ipv6_network_share_the_back_off() -> None:
    backoff = LoginBackoff(ManualClock())
    for number in range(4):
        backoff.failed(f"2001:db8::{number}")

    assert backoff.wait_seconds("2001:db8::ffff") == 2
    assert backoff.wait_seconds("2001:db8:0:1::1") == 0


def test_an_ipv4_address_mapped_into_ipv6_is_the_same_client() -> None:
    backoff = LoginBackoff(ManualClock())
    for _ in range(4):
        backoff.failed("::ffff:10.0.0.1")

    assert backoff.wait_seconds("10.0.0.1") == 2
    assert backoff.wait_seconds("::ffff:10.0.0.2") == 0


async def test_each_failed_login_doubles_the_wait_and_a_success_resets_it() -> None:
    clock = ManualClock()
    backoff = LoginBackoff(clock)
    waits = []
    for _ in range(20):
        backoff.failed("10.0.0.1")
        waits.append(backoff.wait_seconds("10.0.0.1"))

    assert waits[:3] == [0, 0, 0]
    assert waits[3:6] == [2, 4, 8]
    assert max(waits) == waits[-1] == 300
    assert backoff.wait_seconds("10.0.0.2") == 0

    backoff.succeeded("10.0.0.1")
    assert backoff.wait_seconds("10.0.0.1") == 0
