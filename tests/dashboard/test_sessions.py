from kerolox.dashboard import sessions
from kerolox.dashboard.sessions import Guesses, Sessions
from kerolox.runtime.clock import ManualClock


async def test_a_session_ends_when_it_is_idle_and_when_it_is_old() -> None:
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


def test_there_are_never_more_sessions_than_allowed() -> None:
    known = Sessions(ManualClock())
    first = known.begin("ada", is_reader=False)
    last = [known.begin("ada", is_reader=False) for _ in range(sessions.SESSIONS_MAX)][-1]

    assert len(known) == sessions.SESSIONS_MAX
    assert known.find(first) is None
    assert known.find(last) is not None


async def test_each_wrong_guess_waits_longer_and_a_right_one_ends_that() -> None:
    clock = ManualClock()
    guesses = Guesses(clock)
    waits = []
    for _ in range(20):
        guesses.wrong("10.0.0.1")
        waits.append(guesses.wait_seconds("10.0.0.1"))

    assert waits[:3] == [0, 0, 0]
    assert waits[3:6] == [2, 4, 8]
    assert max(waits) == waits[-1] == 300
    assert guesses.wait_seconds("10.0.0.2") == 0

    guesses.right("10.0.0.1")
    assert guesses.wait_seconds("10.0.0.1") == 0
