"""Exporting rates and counts."""

import json
from pathlib import Path

import pytest

from kerolox.client.sync import PushConsumer
from tests.cli.admin.tools import Tool


@pytest.mark.usefixtures("sent")
def test_rates_and_counts_of_a_cluster_are_exported(tool: Tool, consumer: PushConsumer, tmp_path: Path) -> None:
    printed = tool("exportMetrics", "-c", "DefaultCluster", "-f", str(tmp_path))

    document = json.loads((tmp_path / "metrics.json").read_text())
    assert printed == f"export {tmp_path}/metrics.json success"
    report = document["evaluateReport"]["broker-a"]
    assert report["runtimeVersion"] == {"rocketmqVersion": "V5_5_0", "clientInfo": ["PYTHON%V5_5_0"]}
    assert report["runtimeQuota"]["topicSize"] == 1
    assert document["totalData"]["totalTps"].keys() == {
        *("totalNormalInTps", "totalNormalOutTps", "totalTransInTps", "totalScheduleInTps"),
    }
