"""The page for operators names what there is, and all of it."""

import re
from pathlib import Path

from kerolox.admin import AdminClient

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "administer.md"


def test_every_method_for_operators_is_on_the_page_and_nothing_else() -> None:
    admin = AdminClient(namesrv_addr="127.0.0.1:9876")
    subjects = {
        name: subject for name, subject in vars(admin).items() if not name.startswith("_") and name != "options"
    }
    # What goes to a broker whose address is known is for the other subjects.
    offered = {
        f"admin.{name}.{method}"
        for name, subject in subjects.items()
        for method in vars(type(subject))
        if not method.startswith("_") and not method.endswith("_at")
    }

    assert set(re.findall(r"admin\.[a-z]+\.[a-z_]+", PAGE.read_text())) == offered
