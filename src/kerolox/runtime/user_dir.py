"""The per-user data folder."""

import os
from pathlib import Path


def home() -> Path:
    """Return $KEROLOX_HOME, by default `~/.kerolox`; the folder may not exist yet."""
    named = os.environ.get("KEROLOX_HOME")
    return Path(named).expanduser() if named else Path("~/.kerolox").expanduser()
