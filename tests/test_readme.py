"""Runs the code blocks of the README."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from kerolox.testing import Cluster

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


async def run(script: str, **environment: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=-1, stderr=-1, env=environment, cwd=ROOT
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_sending_and_consuming_from_python(kerolox_cluster: Cluster) -> None:
    code, printed, complaint = await run(BLOCKS[0].replace("127.0.0.1:9876", kerolox_cluster.namesrv_addr))

    # The next block needs a Spark session; tests/spark/test_readme.py runs it.
    assert (code, printed, complaint) == (0, "order-17 two teapots\n", "")


@pytest.mark.parametrize(
    ("example", "verdict"), [("nameserver.py", "Everything agrees."), ("messages.py", "every count agrees")]
)
async def test_the_examples_succeed(example: str, verdict: str) -> None:
    code, printed, complaint = await run((ROOT / "examples" / example).read_text())

    assert (code, complaint) == (0, "")
    assert verdict in printed
