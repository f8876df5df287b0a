"""The accepted differences apply only to their own lines."""

from __future__ import annotations

import pytest

from tests.compat.broker_commands import ENDLESS, steps_with_clients, steps_without_clients
from tests.compat.broker_differences import (
    DIFFERENCES,
    NO_DIFFERENCE,
    OTHER_VALUES,
    Difference,
    compare_settings,
    explanation,
)
from tests.compat.normalised_output import normalised

_STEPS = (*steps_with_clients("script"), *steps_without_clients("script"), *ENDLESS)


@pytest.mark.parametrize("version", DIFFERENCES)
def test_every_difference_belongs_to_a_command_of_the_script(version: str) -> None:
    titles = [" ".join(step.arguments) for step in _STEPS]

    assert [key for key in DIFFERENCES[version] if not any(f"{title} ".startswith(f"{key} ") for title in titles)] == []
    assert all(difference.reason for difference in DIFFERENCES[version].values() if difference is not NO_DIFFERENCE)


def test_the_longest_prefix_of_a_command_applies() -> None:
    assert explanation("4.9.8", ("topicList",)) is DIFFERENCES["4.9.8"]["topicList"]
    assert explanation("4.9.8", ("topicList", "-c")) is DIFFERENCES["4.9.8"]["topicList -c"]
    assert explanation("4.9.8", ("statsAll", "-t", "script")) is None
    assert explanation("4.9.8", ("allocateMQ",)) is None


def test_unexplained_lines_are_returned() -> None:
    difference = Difference("a reason", ((r"\d+ bytes", "# bytes"),), apache=("old .*",), ours=("new .*",))

    assert difference.unexplained_lines("same\n12 bytes\nold way", "3 bytes\nsame\nnew way") == []
    assert difference.unexplained_lines("same\nold way", "same\nold") == ["ours:   old"]
    assert difference.unexplained_lines("new way", "new way\nnew way\nother") == ["ours:   other"]
    assert difference.unexplained_lines("other", "same") == ["apache: other", "ours:   same"]


def test_settings_may_be_missing_but_not_differ() -> None:
    apache = "".join(f"{key} = theirs\n" for key in OTHER_VALUES["5.5.0"])
    ours = "".join(f"{key} = ours\n" for key in OTHER_VALUES["5.5.0"])
    count = len(OTHER_VALUES["5.5.0"])

    compared = compare_settings("5.5.0", f"{apache}\nthreads = 3", f"{ours}\nsome = 1")
    assert compared == f"{count} of {count + 1} settings"
    with pytest.raises(AssertionError, match="threads"):
        compare_settings("5.5.0", f"{apache}\nthreads = 3", f"{ours}\nthreads = 4")


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
