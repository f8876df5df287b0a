"""The NameServer under test, ours or Apache's, as a process with an address."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.apache import servers
from tests.apache.processes import Process, running, temporary_home
from tests.apache.servers import write_properties

# With `apache`, the tests compare Apache's NameServer with itself; a difference is then a defect of the test.
_SUBJECT = os.environ.get("KEROLOX_COMPAT_SUBJECT", "kerolox")
_ADDRESS = re.compile(r"address (\S+:\d+)")


def subject_is_apache() -> bool:
    return _SUBJECT == "apache"


@contextlib.contextmanager
def subject(version: str, properties: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Start the NameServer under test; `version` is used only for Apache's."""
    with contextlib.ExitStack() as stack:
        if subject_is_apache():
            yield stack.enter_context(servers.name_server(version, properties))
        else:
            yield stack.enter_context(kerolox_name_server(properties))


@contextlib.contextmanager
def kerolox_name_server(properties: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Start our NameServer by its command, on a free loopback port."""
    command = Path(sys.executable).parent / "mqnamesrv"
    with temporary_home() as home:
        settings = {
            "listenPort": "0",
            "bindAddress": "127.0.0.1",
            "kvConfigPath": str(home / "kvConfig.json"),
            **(properties or {}),
        }
        file = write_properties(home / "namesrv.properties", settings)
        with running([str(command), "-c", str(file)], home) as process:
            line = process.wait_for("boot success", timeout_seconds=30.0)
            match = _ADDRESS.search(line)
            assert match is not None, line
            process.address = match.group(1)
            yield process
