"""Who listens here."""

import os
import socket
from pathlib import Path

from kerolox.cli import ports


def test_a_port_that_is_taken_is_told_with_who_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        taken, who = ports.is_free(port), ports.listener(port)

    assert not taken
    assert who is not None
    assert who.startswith(f"process {os.getpid()} (")
    assert ports.is_free(port)
    assert ports.listener(port) is None


def test_a_system_that_does_not_tell_is_no_trouble(tmp_path: Path) -> None:
    assert ports.listener(1, tmp_path) is None
