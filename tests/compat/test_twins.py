"""Outputs of two tools are compared and kept; the reasons refer to commands in the scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat import twins
from tests.compat.access_commands import access_lists, accounts
from tests.compat.broker_commands import ENDLESS, attended, deserted
from tests.compat.commands import Step
from tests.compat.explained import Difference
from tests.compat.later_commands import copied, later
from tests.compat.our_mqadmin import ACCESS, EXPLAINED, LATER
from tests.compat.twins import Reasons, keep

_SCRIPTS = {
    "4.9.8": (EXPLAINED, (*attended("script"), *deserted("script"), *ENDLESS)),
    "5.x": (LATER, (*later("script"), *copied())),
    "accounts": (ACCESS, (*access_lists(), *accounts())),
}


@pytest.mark.parametrize("name", _SCRIPTS)
def test_every_reason_is_of_a_command_in_the_script(name: str) -> None:
    reasons, steps = _SCRIPTS[name]
    titles = [" ".join(step.arguments) for step in steps]

    assert [key for key in reasons if not any(f"{title} ".startswith(f"{key} ") for title in titles)] == []


def test_an_unexplained_difference_is_a_failure() -> None:
    reasons = Reasons({"look": Difference("there is a column more", ((" more", ""),))})

    assert reasons.judged(("look", "-a"), "rows more", "rows") == "there is a column more"
    assert reasons.judged(("count",), "1\n2", "2\n1") == "same, in another order"
    for arguments, java, ours in ((("look",), "rows more", "row"), (("look",), "rows", "rows"), (("count",), "1", "2")):
        with pytest.raises(AssertionError):
            reasons.judged(arguments, java, ours)


def test_both_texts_are_kept_as_they_were_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(twins, "KEPT", tmp_path)
    step = Step(("updateTopic", "-b", "{address}", "-t", "../a|b"))

    keep("4.9.8", "Apache 4.9.7", step, "java  \n", "ours")
    keep("4.9.8", "Apache 4.9.7", step, "again", "ours", times=2)

    folder = tmp_path / "4.9.8" / "Apache_4.9.7" / "updateTopic_-b_ADDRESS_-t_.._a_b"
    assert (folder / "java.txt").read_text() == "java  \n"
    assert (folder / "kerolox.txt").read_text() == "ours"
    assert (folder.with_name(f"{folder.name}_2") / "java.txt").read_text() == "again"
