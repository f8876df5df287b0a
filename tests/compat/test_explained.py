"""The table of differences explains exactly its own lines."""

from __future__ import annotations

import pytest

from tests.compat.broker_commands import ENDLESS, attended, deserted
from tests.compat.explained import EXPLAINED, NONE, Difference, explanation, settings
from tests.compat.printed import normalised

_STEPS = (*attended("script"), *deserted("script"), *ENDLESS)


@pytest.mark.parametrize("version", EXPLAINED)
def test_every_explanation_is_of_a_command_in_the_script(version: str) -> None:
    titles = [" ".join(step.arguments) for step in _STEPS]

    assert [key for key in EXPLAINED[version] if not any(f"{title} ".startswith(f"{key} ") for title in titles)] == []
    assert all(difference.reason for difference in EXPLAINED[version].values() if difference is not NONE)


def test_the_longest_beginning_of_a_command_counts() -> None:
    assert explanation("4.9.8", ("topicList",)) is EXPLAINED["4.9.8"]["topicList"]
    assert explanation("4.9.8", ("topicList", "-c")) is EXPLAINED["4.9.8"]["topicList -c"]
    assert explanation("4.9.8", ("statsAll", "-t", "script")) is None
    assert explanation("4.9.8", ("allocateMQ",)) is None


def test_lines_that_are_not_explained_are_left() -> None:
    difference = Difference("a reason", ((r"\d+ bytes", "# bytes"),), apache=("old .*",), ours=("new .*",))

    assert difference.left("same\n12 bytes\nold way", "3 bytes\nsame\nnew way") == []
    assert difference.left("same\nold way", "same\nold") == ["ours:   old"]
    assert difference.left("new way", "new way\nnew way\nother") == ["ours:   other"]
    assert difference.left("other", "same") == ["apache: other", "ours:   same"]


def test_settings_may_be_missing_and_not_have_other_values() -> None:
    others = "listenPort = 1\nstorePathCommitLog = a\nbitMapLengthConsumeQueueExt = 1\nflushCommitLogLeastPages = 4"
    own = "listenPort = 2\nstorePathCommitLog =\nbitMapLengthConsumeQueueExt = 2\nflushCommitLogLeastPages = 0"

    assert settings("5.5.0", f"{others}\nthreads = 3", f"{own}\nsome = 1") == "4 of 5 settings"
    with pytest.raises(AssertionError, match="threads"):
        settings("5.5.0", f"{others}\nthreads = 3", f"{own}\nthreads = 4")


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("2026-11-16 02:45:42,713 127.0.0.1:4711 7F00000100002A9F00000000000FFFFF", "TIME CLIENT ID"),
        ("script broker-a 0 4 4 0 TIME", "script broker-a 0 4 4 0 TIME"),
        ("%RETRY%g broker-a 0 0 0 0 N/A", ""),
        ("BROKER putMessageSizeTotal : 12", "BROKER putMessageSizeTotal : #"),
        ("#Consumer jstack#\nmain\n  at some.where", "#Consumer jstack#"),
    ],
)
def test_volatile_values_are_normalised(printed: str, kept: str) -> None:
    assert normalised(printed) == kept
