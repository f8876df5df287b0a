"""`exportMetrics`: rates and counts of a cluster's brokers, written to a file as JSON."""

from typing import Any

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command
from kerolox.cli.admin.export import CLUSTER, groups_of, written
from kerolox.cli.admin.finding import members_of
from kerolox.client.names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.codes import CURRENT_VERSION
from kerolox.errors import KeroloxError

_TOTALS = ("totalNormalInTps", "totalNormalOutTps", "totalTransInTps", "totalScheduleInTps")
_HALF_TOPIC, _SCHEDULE_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"


@command(
    "exportMetrics",
    "export metrics",
    CLUSTER,
    Flag("f", "filePath", "export metrics.json path | default /tmp/rocketmq/export"),
)
async def export_metrics(call: Call) -> Parts:
    report: dict[str, Any] = {}
    rates = dict.fromkeys(_TOTALS, 0.0)
    counts: dict[str, int] = {}
    for master, *_ in await members_of(call, call["clusterName"]):
        name, broker, tps, day = await _broker(call, master)
        report[name] = broker
        for key, value in tps.items():
            rates[f"total{key[0].upper()}{key[1:]}"] += value
        for key, count in day.items():
            counts[key] = counts.get(key, 0) + count
    totals = {"totalTps": java.in_hash_order(rates), "totalOneDayNum": java.in_hash_order(counts)}
    document = {"evaluateReport": java.in_hash_order(report), "totalData": java.in_hash_order(totals)}
    yield await written(call, "metrics.json", java.in_hash_order(document))


async def _broker(call: Call, address: str) -> tuple[str, dict[str, Any], dict[str, float], dict[str, int]]:
    info = await call.admin.cluster.runtime_info(address)
    config = await call.admin.configuration.broker(address)
    groups = await groups_of(call, address)
    half_tps, half_day = await _counted(call, address, _HALF_TOPIC)
    schedule_tps, schedule_day = await _counted(call, address, _SCHEDULE_TOPIC)
    transferred = info.get("getTransferedTps") or info.get("getTransferredTps", "")
    tps = {
        "normalInTps": _first(info.get("putTps", "")),
        "normalOutTps": _first(transferred),
        "transInTps": half_tps,
        "scheduleInTps": schedule_tps,
    }
    day = {
        "normalOneDayInNum": _yesterday(info, "Put"),
        "normalOneDayOutNum": _yesterday(info, "Get"),
        "transOneDayInNum": half_day,
        "scheduleOneDayInNum": schedule_day,
    }
    quota = {
        "diskRatio": {name: info.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
        "tps": java.in_hash_order(tps),
        "oneDayNum": java.in_hash_order(day),
        "messageAverageSize": info.get("putMessageAverageSize"),
        "topicSize": await _topic_count(call, address),
        "groupSize": len(groups),
    }
    environment = {"cpuNum": config.get("clientCallbackExecutorThreads"), "totalMemKBytes": info.get("totalMemKBytes")}
    versions = {"rocketmqVersion": CURRENT_VERSION.name, "clientInfo": await _clients(call, list(groups))}
    parts = {
        "runtimeEnv": environment,
        "runtimeQuota": java.in_hash_order(quota),
        "runtimeVersion": java.in_hash_order(versions),
    }
    return config.get("brokerName", address), java.in_hash_order(parts), tps, day


async def _counted(call: Call, address: str, topic: str) -> tuple[float, int]:
    data = await call.admin.statistics.of_broker(address, "TOPIC_PUT_NUMS", topic)
    if data is None:
        return 0.0, 0
    return data.stats_minute.tps, data.stats_day.sum or data.stats_hour.sum or data.stats_minute.sum


def _first(text: str) -> float:
    return float(text.split(" ")[0] or 0)


def _yesterday(info: dict[str, str], way: str) -> int:
    today, before = (info.get(f"msg{way}Total{day}Morning", "0") for day in ("Today", "Yesterday"))
    return int(today) - int(before)


async def _topic_count(call: Call, address: str) -> int:
    system = set(await call.admin.topics.system_names())
    names = await call.admin.topics.all_configs(address)
    return sum(name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)) for name in names)


async def _clients(call: Call, groups: list[str]) -> list[str]:
    """Returns the languages and releases of the consumers."""
    found: dict[str, None] = {}
    for group in groups:
        try:
            clients = await call.admin.connections.consumers(group)
        except KeroloxError:
            continue
        found |= dict.fromkeys(f"{it.language}%{java.version(it.version)}" for it in clients.connection_set)
    return list(java.in_hash_order(found))
