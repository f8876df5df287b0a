"""Records what Java's mqadmin says of its commands: python -m tests.golden.record_mqadmin_help"""

from __future__ import annotations

import re

from tests.apache.admin import admin, mqadmin
from tests.golden.recordings import HERE

VERSION = "4.9.8"
FILE = HERE / f"mqadmin-help-{VERSION}.txt"


def load() -> tuple[str, dict[str, str]]:
    """Return the list of commands, and the help of each by name."""
    listed, *helps = FILE.read_text().split("\f\n")
    return listed, {text.split(" ", 3)[2].rstrip("\n"): text for text in helps}


if __name__ == "__main__":
    listed = mqadmin(VERSION).stdout
    with admin(VERSION) as tool:
        helps = [tool.run("help", name).stdout for name in re.findall(r"^   (\w+) ", listed, re.MULTILINE)]
    FILE.write_text("\f\n".join([listed, *helps]))
