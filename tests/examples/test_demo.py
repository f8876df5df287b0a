"""Runs `make demo` and the examples with Spark like a user."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from kerolox.admin import AdminClient
from tests.examples.test_examples import EXAMPLES, run

pytest.importorskip("pyspark", reason="kerolox[spark] is not installed")

from tests.spark.conftest import environment


@pytest.mark.timeout(600)
async def test_the_demo_succeeds_only_if_all_counts_agree(tmp_path: Path) -> None:
    environ = {**environment(), "ORDERS": "2000", "TMPDIR": str(tmp_path), "COLUMNS": "120"}
    printed = "\n".join(await run("demo.py", with_spark=environ))

    assert "Every count agrees." in printed
    assert re.search(r"orders sent, each acknowledged\W+2,000\W+2,000", printed)
    assert re.search(r"rows in Parquet, each order once\W+2,000\W+2,000", printed)
    assert re.search(r"lines in the summary topic\W+30\W+30", printed)
    assert list(tmp_path.glob("kerolox-demo-*")) == []


async def test_the_demo_shows_its_results_and_why_spark_failed(tmp_path: Path) -> None:
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (java / "bin" / "java").write_text("#!/bin/sh\necho this Java is broken >&2\nexit 1\n")
    (java / "bin" / "java").chmod(0o755)
    environ = {**environment(), "JAVA_HOME": str(java), "ORDERS": "200", "TMPDIR": str(tmp_path), "COLUMNS": "120"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / "demo.py")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environ,
    )
    printed, errors = (text.decode() for text in await asyncio.wait_for(process.communicate(), 100))

    assert process.returncode == 1
    assert re.search(r"orders sent, each acknowledged\W+200\W+200", printed)
    assert re.search(r"consumed by the group\W+200\W+200", printed)
    assert "Spark failed, and is retried once: [JAVA_GATEWAY_EXITED]" in printed
    assert "The Spark part failed: [JAVA_GATEWAY_EXITED]" in printed
    assert "Traceback" not in printed + errors
    assert "this Java is broken" in (tmp_path / "kerolox-demo-spark.log").read_text()


@pytest.mark.timeout(600)
async def test_spark_aggregates_the_topics() -> None:
    printed = await run("spark_read.py", with_spark=environment())

    assert printed == ["25 orders are open, worth 1200.00", "75 orders are paid, worth 3750.00"]


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_demo_can_keep_its_cluster_running(tmp_path: Path) -> None:
    environ = {
        **environment(),
        "KEEP": "1",
        "ORDERS": "200",
        "TMPDIR": str(tmp_path),
        "KEROLOX_HOME": str(tmp_path / "home"),
        "COLUMNS": "120",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / "demo.py")), stdout=asyncio.subprocess.PIPE, env=environ
    )
    try:
        printed = (await asyncio.wait_for(process.communicate(), 600))[0].decode()
        assert "Every count agrees." in printed
        assert "KEEP=1" not in printed
        left = dict(re.findall(r"^ +(NameServer|Dashboard) +(\S+)$", printed, re.MULTILINE))
        async with AdminClient(namesrv_addr=left["NameServer"]) as admin:
            assert {"orders", "orders_per_minute"} <= set(await admin.topics.names())
        async with httpx.AsyncClient(base_url=left["Dashboard"], timeout=60, trust_env=False) as browser:
            for path, shown in {"/": "broker-a", "/topics": "orders_per_minute", "/pipelines": "archive"}.items():
                page = await browser.get(path)
                assert (page.status_code, shown in page.text) == (200, True), page.text
        assert '"state":"done"' in (tmp_path / "home" / "pipelines" / "orders.json").read_text()
    finally:
        await _stop(process, tmp_path, environ)


async def _stop(process: asyncio.subprocess.Process, folder: Path, environ: dict[str, str]) -> None:
    """Stop the cluster that the demo keeps running, and the demo itself if it still runs."""
    (kept,) = folder.glob("kerolox-demo-*")
    down = f"from kerolox.cli.app import main; main(['down', '--data', {str(kept / 'cluster')!r}])"
    ending = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", down), env=environ, stderr=asyncio.subprocess.DEVNULL
    )
    await ending.wait()
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), 120)
