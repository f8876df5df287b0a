"""Commands that run a server: how they exit when a service fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.ups import environment

# The service fails after the server has started, since services run from then on.
_FAILING = """
from {module} import {service}

async def run(self):
    raise RuntimeError("no more")

{service}.run = run

from kerolox.cli.app import main

main(prog_name="kerolox")
"""


@pytest.mark.parametrize(
    ("module", "service", "arguments", "error"),
    [
        ("kerolox.store.timer.timer", "Timer", "broker --port 0 --store {}/store", "Timer failed"),
        ("kerolox.namesrv.broker_liveness", "ExpiryScan", "namesrv --port 0", "ExpiryScan failed"),
        (
            "kerolox.store.timer.timer",
            "Timer",
            "up --data {} --namesrv-port 0 --broker-port 0 --no-dashboard",
            "Cluster failed: broker broker-a failed: Timer failed",
        ),
    ],
    ids=["broker", "namesrv", "up"],
)
def test_a_failing_service_ends_the_process_with_one_line_that_names_it(
    tmp_path: Path, module: str, service: str, arguments: str, error: str
) -> None:
    script = _FAILING.format(module=module, service=service)

    result = subprocess.run(
        [sys.executable, "-P", "-c", script, *arguments.format(tmp_path).split()],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == f"Error: {error}: RuntimeError: no more"
    assert list(tmp_path.glob("**/abort")) == []
