import pytest

from kerolox.dashboard.http.login_log import LINES_MAX, PERIOD_SECONDS, LoginLog
from kerolox.runtime.clock import ManualClock


async def test_a_flood_of_failed_logins_is_counted_and_does_not_hide_a_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "kerolox.dashboard.http.login_log")
    clock = ManualClock()
    logins = LoginLog(clock)
    for number in range(1000):
        logins.failed(f"user-{number}", "203.0.113.66")
    logins.succeeded("ada", "203.0.113.9")

    assert len(caplog.messages) == LINES_MAX + 2
    assert caplog.messages[LINES_MAX].startswith(f"more than {LINES_MAX} failed logins within 60 s")
    assert caplog.messages[-1] == "user 'ada' logged in from 203.0.113.9"

    caplog.clear()
    await clock.advance(PERIOD_SECONDS)
    logins.failed("eve", "203.0.113.66")

    assert caplog.messages == [
        f"{1000 - LINES_MAX} failed logins were not logged",
        "login of user 'eve' from 203.0.113.66 failed: wrong name or password",
    ]
