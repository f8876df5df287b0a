"""The process that listens on a port."""

import os
import socket
from pathlib import Path

from kerolox.cli import ports


def test_the_process_that_uses_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        taken, who = ports.is_free(port), ports.listening_process(port)

    assert not taken
    assert who is not None
    assert who.startswith(f"process {os.getpid()} (")
    assert ports.is_free(port)
    assert ports.listening_process(port) is None


def test_without_proc_no_process_is_named(tmp_path: Path) -> None:
    assert ports.listening_process(1, tmp_path) is None
