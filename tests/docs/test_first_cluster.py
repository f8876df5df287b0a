"""Runs the tutorial: its commands in order, and the Python between them."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.ups import FREE_PORTS, environment, kerolox, status

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "first-cluster.md").read_text()
COMMANDS = [line.strip() for line in PAGE.splitlines() if re.match(r"^    (echo|kerolox) ", line)]
(SCRIPT,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def labels(text: str) -> list[str]:
    """Return the labels that `kerolox up` prints, without addresses and paths."""
    return re.findall(r"^ +(NameServer|Broker broker-a|Dashboard|Data|Stop it)  +\S", text, re.MULTILINE)


@pytest.mark.timeout(400)
def test_the_tutorial_works_from_nothing(tmp_path: Path) -> None:
    # The default ports may be in use on a test machine.
    script = tmp_path / "bin" / "kerolox"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m kerolox "$@"\n')
    script.chmod(0o755)
    variables = environment(tmp_path)
    variables["PATH"] = f"{script.parent}:{variables['PATH']}"
    printed: dict[str, str] = {}
    try:
        for command in COMMANDS:
            typed = f"{command} {' '.join(FREE_PORTS)}" if command.startswith("kerolox up") else command
            result = subprocess.run(
                ["/bin/sh", "-c", typed], env=variables, capture_output=True, text=True, timeout=120, check=False
            )
            assert result.returncode == 0, (command, result)
            printed[command] = result.stdout
            if command.startswith("kerolox up"):
                assert labels(result.stdout) == labels(PAGE)
                assert httpx.get(status(tmp_path)["dashboard"], timeout=60, trust_env=False).status_code == 200
                variables["NAMESRV_ADDR"] = status(tmp_path)["namesrv"]
            if "queryMsgByKey" in command:
                script = SCRIPT.replace("127.0.0.1:9876", variables["NAMESRV_ADDR"])
                printed["python"] = subprocess.run(
                    [sys.executable, "-c", script],
                    env=variables,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=True,
                ).stdout
    finally:
        kerolox(tmp_path, "down")

    assert printed["kerolox consume orders --exit"] == "two teapots\n"
    assert "broker-a" in printed["kerolox admin clusterList"]
    assert "orders" in printed["kerolox admin topicList"]
    assert printed["python"].splitlines()[-1] == "a kettle"
    assert printed["kerolox status"].startswith("Kerolox 0.")
    assert printed["kerolox down"].startswith("Stopped process ")
