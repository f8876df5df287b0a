"""RocketMQ release names by the version number in every frame (MQVersion)."""

from functools import cache

_V3_0_0_NAMES = [
    "SNAPSHOT",
    "ALPHA1",
    "BETA1",
    "BETA2",
    "BETA3",
    "BETA4",
    "BETA5",
    "BETA6_SNAPSHOT",
    "BETA6",
    "BETA7_SNAPSHOT",
    "BETA7",
    "BETA8_SNAPSHOT",
    "BETA8",
    "BETA9_SNAPSHOT",
    "BETA9",
    "FINAL",
]
# Minor version, first and last patch version of 3.x; from 4.0 on there are ten of each.
_SERIES = ((0, 1, 15), (1, 0, 9), (2, 0, 9), *((series, 1, 9) for series in range(3, 9)), (9, 1, 9))


@cache
def _names() -> list[str]:
    releases = [f"3_{series}_{number}" for series, first, last in _SERIES for number in range(first, last + 1)]
    releases += [f"{major}_{series}_{number}" for major in (4, 5) for series in range(10) for number in range(10)]
    names = [f"V3_0_0_{name}" for name in _V3_0_0_NAMES]
    for release in releases:
        names += [f"V{release}_SNAPSHOT", f"V{release}"]
    return [*names, "HIGHER_VERSION"]


def release_name(number: int) -> str:
    """Return the release name of a version number; unknown numbers map to the nearest known one."""
    return _names()[min(max(number, 0), len(_names()) - 1)]
