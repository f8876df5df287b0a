"""Where a user's own Kerolox keeps what has no other place."""

import os
from pathlib import Path


def home() -> Path:
    """Returns the folder that KEROLOX_HOME names, else `.kerolox` in the user's home; it need not exist yet."""
    named = os.environ.get("KEROLOX_HOME")
    return Path(named).expanduser() if named else Path("~/.kerolox").expanduser()
