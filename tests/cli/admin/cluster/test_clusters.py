"""Rates of a cluster's brokers, and the state of replication."""

import pytest

from tests.cli.admin.tools import COUNT, Tool, rows


def test_brokers_are_listed_with_rates(tool: Tool) -> None:
    heading, row = tool("clusterList").splitlines()

    assert heading.split()[:4] == ["#Cluster", "Name", "#Broker", "Name"]
    assert row.split()[:5] == ["DefaultCluster", "broker-a", "0", tool.broker_addr, "V5_5_0"]
    assert tool.json("clusterList")[0]["bid"] == 0


@pytest.mark.usefixtures("sent")
def test_brokers_are_listed_with_counts(tool: Tool) -> None:
    assert rows(tool("clusterList", "-m")) == [["DefaultCluster", "broker-a", "0", "0", str(COUNT), "0"]]


def test_slaves_are_listed_with_their_lag(tool: Tool) -> None:
    printed = tool("haStatus", "-b", tool.broker_addr)

    assert printed.startswith(f"\n#MasterAddr\t{tool.broker_addr}\n#MasterCommitLogMaxOffset\t")
    assert "#SlaveNum\t0\n#InSyncSlaveNum\t0\n" in printed
    assert printed.splitlines()[-1].split()[0] == "#SlaveAddr"
    assert tool("haStatus", "-c", "DefaultCluster").startswith("\n#MasterAddr")
    assert "give one of" in tool.run("haStatus").stderr


def test_the_flush_offset_of_a_master_is_set(tool: Tool) -> None:
    printed = tool("resetMasterFlushOffset", "-b", tool.broker_addr, "-o", "4096")

    assert printed == "reset master flush offset to 4096 success\n"
    assert "--offset is missing" in tool.run("resetMasterFlushOffset", "-b", tool.broker_addr).stderr


def test_one_cluster_is_listed(tool: Tool) -> None:
    assert len(rows(tool("clusterList", "-c", "DefaultCluster"))) == 1
    assert rows(tool("clusterList", "-c", "Elsewhere")) == []
