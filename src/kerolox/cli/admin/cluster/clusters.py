"""`clusterList`, `haStatus` and `resetMasterFlushOffset`: load of a cluster's brokers, and the state of replication."""

from collections.abc import Mapping
from typing import Any

from kerolox.admin import BrokerStatus
from kerolox.cli.admin.broker_options import master_addresses, require_target
from kerolox.cli.admin.command import Call, Flag, Output, command, newer, pause, switch
from kerolox.cli.admin.errors import CommandFailed
from kerolox.cli.admin.java_times import millis_text
from kerolox.cli.admin.output import Cell, CompositeCell, Table, Text, parse_value
from kerolox.wire.bodies.offsets import HaRuntimeInfo


@command(
    "clusterList",
    "List all of clusters",
    switch("m", "moreStats", "Print more stats"),
    Flag("i", "interval", "specify intervals numbers, it is in seconds"),
    newer("c", "clusterName", "which cluster"),
    is_watchable=True,
)
async def cluster_list(call: Call) -> Output:
    seconds = call.number("interval")
    while True:
        found = await call.admin.cluster.brokers()
        brokers = [it for it in found if call.get("clusterName") in (None, it.cluster)]
        yield _counts(brokers) if call.has("moreStats") else _rates(brokers, call.admin.options.clock.millis())
        if not seconds:
            return
        await pause(seconds)


def _counts(brokers: list[BrokerStatus]) -> Table:
    columns = ("#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
    rows = [
        (
            it.cluster,
            it.name,
            count_yesterday(it.info, "Put"),
            count_yesterday(it.info, "Get"),
            it.in_today,
            it.out_today,
        )
        for it in brokers
    ]
    return Table("%-16s  %-32s %14d %14d %14d %14d", columns, rows)


def count_yesterday(info: Mapping[str, str], kind: str) -> int:
    """Return how many messages a broker stored (`Put`) or delivered (`Get`) yesterday, from its runtime info."""
    today, before = (info.get(f"msg{kind}Total{day}Morning", "0") for day in ("Today", "Yesterday"))
    return int(today) - int(before)


def _rates(brokers: list[BrokerStatus], now: int) -> Table:
    columns = (
        *("#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)"),
        *("#PCWait(ms)", "#Hour", "#SPACE"),
    )
    return Table("%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s", columns, [_rate(it, now) for it in brokers])


def _rate(it: BrokerStatus, now_millis: int) -> tuple[object, ...]:
    info = it.info
    oldest = info.get("earliestMessageTimeStamp", "")
    hours = (now_millis - int(oldest)) / 3_600_000 if oldest else 0.0
    # For a broker without messages Java prints the hours since 1970.
    has_messages = bool(oldest) and int(oldest) > 0
    page_cache_wait = info.get("pageCacheLockTimeMills", "")
    ratio = info.get("commitLogDiskRatio")
    return (
        *(it.cluster, it.name, it.broker_id, it.address, Cell(it.version, it.version or None)),
        _load(info, "in", it.in_tps, "send"),
        _load(info, "out", it.out_tps, "pull"),
        CompositeCell(page_cache_wait, {"pcWaitMillis": parse_value(page_cache_wait) if page_cache_wait else None}),
        Cell(f"{hours:2.2f}", hours if has_messages else None, None if has_messages else "-"),
        Cell(f"{float(ratio or 0):.4f}", float(ratio) if ratio else None),
    )


def _load(info: Mapping[str, str], direction: str, tps: float, pool: str) -> CompositeCell:
    size, wait = (info.get(f"{pool}ThreadPoolQueue{part}", "") for part in ("Size", "HeadWaitTimeMills"))
    values = {
        f"{direction}Tps": tps,
        f"{pool}QueueSize": parse_value(size) if size else None,
        f"{pool}QueueWaitMillis": parse_value(wait) if wait else None,
    }
    return CompositeCell(f"{tps:9.2f}({size},{wait}ms)", values)


@command(
    "haStatus",
    "Fetch ha runtime status data.",
    Flag("c", "clusterName", "which cluster"),
    Flag("b", "brokerAddr", "which broker to fetch"),
    Flag("i", "interval", "the interval(second) of get info"),
    is_watchable=True,
    since="5.0.0",
)
async def ha_status(call: Call) -> Output:
    require_target(call)
    seconds = call.number("interval")
    while True:
        for address in await master_addresses(call):
            info = await call.admin.cluster.ha_status(address)
            parts = _master_report(address, info) if info.master else _slave_report(info.ha_client_runtime_info or {})
            for part in parts:
                yield part
        if not seconds:
            return
        await pause(seconds)


def _master_report(address: str, info: HaRuntimeInfo) -> list[Table | Text]:
    slaves = info.ha_connection_info
    values = {
        "masterAddr": address,
        "masterCommitLogMaxOffset": info.master_commit_log_max_offset,
        "slaveNum": len(slaves),
        "inSyncSlaveNum": info.in_sync_slave_nums,
    }
    lines = "".join(f"#{name[0].upper()}{name[1:]}\t{value}\n" for name, value in values.items())
    rows = [
        (
            slave.get("addr"),
            slave.get("slaveAckOffset", 0),
            slave.get("diff", 0),
            slave.get("transferredByteInSecond", 0) / 1024,
            "OK" if slave.get("inSync") else "Fall Behind",
            slave.get("transferFromWhere", 0),
        )
        for slave in slaves
    ]
    columns = ("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
    return [Text(f"\n{lines}", values), Table("%-32s  %-16d %16d %16.2f %16s %16d", columns, rows)]


def _slave_report(info: Mapping[str, Any]) -> list[Table | Text]:
    values = {
        "MasterAddr": info.get("masterAddr"),
        "CommitLogMaxOffset": info.get("maxOffset"),
        "TransferSpeed(KB/s)": f"{info.get('transferredByteInSecond', 0) / 1024:.2f}",
        "LastReadTime": millis_text(info.get("lastReadTimestamp", 0)),
        "LastWriteTime": millis_text(info.get("lastWriteTimestamp", 0)),
        "MasterFlushOffset": info.get("masterFlushOffset"),
    }
    return [Text("\n" + "".join(f"#{name}\t{value}\n" for name, value in values.items()), dict(info))]


@command(
    "resetMasterFlushOffset",
    "Reset master flush offset in slave.",
    Flag("b", "brokerAddr", "which broker to reset"),
    Flag("o", "offset", "the offset to reset at"),
    since="5.0.0",
)
async def reset_master_flush_offset(call: Call) -> Output:
    for name in ("brokerAddr", "offset"):
        if not call.has(name):
            raise CommandFailed(f"--{name} is missing")
    offset = call.number("offset")
    await call.admin.cluster.reset_master_flush_offset(call["brokerAddr"], offset)
    yield Text(
        f"reset master flush offset to {offset} success\n",
        {"broker": call["brokerAddr"], "masterFlushOffset": offset},
    )
