"""Java consumers with SQL92 expressions on our broker."""

import asyncio
from pathlib import Path

import pytest

from kerolox.testing import Cluster
from tests.apache import VERSIONS
from tests.apache.processes import Completed, run_java

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.parametrize("version", VERSIONS)]


async def select(cluster: Cluster, version: str, topic: str, expression: str, sent: int, count: int) -> Completed:
    arguments = (cluster.namesrv_addr, topic, expression, str(sent), str(count), "60")
    return await asyncio.to_thread(run_java, version, "Select.java", *arguments)


async def test_a_java_consumer_gets_the_messages_that_match_its_expression(tmp_path: Path, version: str) -> None:
    async with Cluster(tmp_path, settings={"enablePropertyFilter": "true"}) as cluster:
        expression = "a BETWEEN 10 AND 89 AND third = 'it''s' AND TAGS IN ('Tag0')"
        expected = sorted(str(number) for number in range(100) if 10 <= number <= 89 and number % 6 == 0)

        completed = await select(cluster, version, "Chosen", expression, 100, len(expected))

    assert completed.stdout.splitlines() == [*expected, f"consumed {len(expected)}"], completed


async def test_a_java_consumer_gets_the_reason_for_a_refused_expression(tmp_path: Path, version: str) -> None:
    async with Cluster(tmp_path, settings={"enablePropertyFilter": "true"}) as cluster:
        completed = await select(cluster, version, "Refused", "a > > 5", 2, 1)

    assert completed.code == 2, completed
    assert "Invalid MessageSelector. line 1, column 5: found '>'" in completed.stdout


async def test_a_java_consumer_is_refused_if_expressions_are_not_enabled(tmp_path: Path, version: str) -> None:
    async with Cluster(tmp_path) as cluster:
        completed = await select(cluster, version, "Disabled", "a > 5", 2, 1)

    assert completed.code == 2, completed
    assert "The broker does not support consumer to filter message by SQL92" in completed.stdout
