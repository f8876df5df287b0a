"""The comparison of two tools, and the accepted differences between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat import tool_comparison
from tests.compat.access_commands import acl_4x_steps, acl_5x_steps
from tests.compat.broker_commands import ENDLESS, steps_with_clients, steps_without_clients
from tests.compat.broker_differences import Difference
from tests.compat.commands import Step
from tests.compat.commands_5x import replication_steps, steps_5x
from tests.compat.our_mqadmin import ACL_DIFFERENCES, DIFFERENCES, DIFFERENCES_5X
from tests.compat.tool_comparison import Reasons, keep

_SCRIPTS = {
    "4.9.8": (DIFFERENCES, (*steps_with_clients("script"), *steps_without_clients("script"), *ENDLESS)),
    "5.x": (DIFFERENCES_5X, (*steps_5x("script"), *replication_steps())),
    "accounts": (ACL_DIFFERENCES, (*acl_4x_steps(), *acl_5x_steps())),
}


@pytest.mark.parametrize("name", _SCRIPTS)
def test_every_difference_belongs_to_a_command_of_the_script(name: str) -> None:
    reasons, steps = _SCRIPTS[name]
    titles = [" ".join(step.arguments) for step in steps]

    assert [key for key in reasons if not any(f"{title} ".startswith(f"{key} ") for title in titles)] == []


def test_an_unexplained_difference_is_a_failure() -> None:
    reasons = Reasons({"look": Difference("there is one more column", ((" more", ""),))})

    assert reasons.verdict(("look", "-a"), "rows more", "rows") == "there is one more column"
    assert reasons.verdict(("count",), "1\n2", "2\n1") == "same, in another order"
    for arguments, java, ours in ((("look",), "rows more", "row"), (("look",), "rows", "rows"), (("count",), "1", "2")):
        with pytest.raises(AssertionError):
            reasons.verdict(arguments, java, ours)


def test_both_outputs_are_kept_unchanged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tool_comparison, "KEPT", tmp_path)
    step = Step(("updateTopic", "-b", "{address}", "-t", "../a|b"))

    keep("4.9.8", "Apache 4.9.7", step, "java  \n", "ours")
    keep("4.9.8", "Apache 4.9.7", step, "again", "ours", times=2)

    folder = tmp_path / "4.9.8" / "Apache_4.9.7" / "updateTopic_-b_ADDRESS_-t_.._a_b"
    assert (folder / "java.txt").read_text() == "java  \n"
    assert (folder / "kerolox.txt").read_text() == "ours"
    assert (folder.with_name(f"{folder.name}_2") / "java.txt").read_text() == "again"
