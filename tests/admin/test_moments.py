"""Points in time."""

from datetime import UTC, datetime, timedelta, timezone

from kerolox.admin.moments import to_millis


def test_a_time_is_milliseconds_since_1970_whatever_its_zone() -> None:
    noon = datetime(2024, 5, 1, 12, 0, 0, 500_000, tzinfo=UTC)

    assert to_millis(noon) == 1_714_564_800_500
    assert to_millis(noon.astimezone(timezone(timedelta(hours=8)))) == 1_714_564_800_500
    assert to_millis(datetime.fromtimestamp(noon.timestamp())) == 1_714_564_800_500
    assert to_millis(-1) == -1
