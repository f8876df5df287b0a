"""Runs the scripts of the page."""

import re
import subprocess
import sys
from pathlib import Path

from kerolox.testing.plugin import RunningCluster

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-without-asyncio.md"


def test_the_scripts_of_the_page_do_what_they_say(kerolox_cluster: RunningCluster) -> None:
    scripts = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    ended = [
        subprocess.run(
            [sys.executable, "-c", script.replace("127.0.0.1:9876", kerolox_cluster.namesrv_addr)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for script in scripts
    ]

    assert [(each.returncode, each.stderr) for each in ended] == [(0, "")] * 2
    assert [each.stdout for each in ended] == ["order 0\norder 1\norder 2\n", "shipped\n"]
