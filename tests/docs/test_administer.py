"""The page for operators names exactly the existing admin methods."""

import re
from pathlib import Path

from kerolox.admin import AdminClient

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "administer.md"


def test_the_page_names_exactly_the_admin_methods() -> None:
    admin = AdminClient(namesrv_addr="127.0.0.1:9876")
    subjects = {
        name: subject for name, subject in vars(admin).items() if not name.startswith("_") and name != "options"
    }
    # Requests to a broker whose address is known belong to the other subjects.
    offered = {
        f"admin.{name}.{method}"
        for name, subject in subjects.items()
        for method in vars(type(subject))
        if not method.startswith("_") and not method.endswith("_at")
    }

    assert set(re.findall(r"admin\.[a-z]+\.[a-z_]+", PAGE.read_text())) == offered
