import logging

import pytest

from kerolox.runtime.clock import ManualClock
from kerolox.runtime.log_limit import LogLimit


async def test_lines_beyond_the_limit_are_demoted_to_debug_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    limit = LogLimit(clock, "bad frames", lines_max=2, seconds=60)

    levels = [limit.level() for _ in range(5)]
    await clock.advance(59)
    limit.report()
    assert levels == [logging.WARNING] * 2 + [logging.DEBUG] * 3
    assert caplog.messages == []

    await clock.advance(1)
    limit.report()
    limit.report()
    assert caplog.messages == ["3 more lines about bad frames in the last 60 s"]


async def test_the_first_line_of_the_next_interval_reports_the_suppressed_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    limit = LogLimit(clock, "bad frames", lines_max=1, seconds=60)
    limit.level()
    limit.level()
    await clock.advance(100)

    assert limit.level() == logging.WARNING
    assert caplog.messages == ["1 more lines about bad frames in the last 60 s"]
    await clock.advance(59)
    assert limit.level() == logging.DEBUG


async def test_no_report_is_logged_if_no_line_was_suppressed(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    limit = LogLimit(clock, "bad frames", lines_max=2, seconds=60)
    limit.level()
    limit.level()
    await clock.advance(120)

    limit.report()

    assert caplog.messages == []
