"""`exportMetrics`: writes rates and counts of a cluster's brokers to a JSON file."""

from typing import Any

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import addresses_by_broker
from kerolox.cli.admin.cluster.clusters import count_yesterday
from kerolox.cli.admin.cluster.export import CLUSTER, exported_groups, write_document
from kerolox.cli.admin.command import Call, Flag, Output, command
from kerolox.client.resource_names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.codes import CURRENT_VERSION
from kerolox.errors import KeroloxError
from kerolox.message.client_versions import release_name

_TOTALS = ("totalNormalInTps", "totalNormalOutTps", "totalTransInTps", "totalScheduleInTps")
_HALF_TOPIC, _SCHEDULE_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"


@command(
    "exportMetrics",
    "export metrics",
    CLUSTER,
    Flag("f", "filePath", "export metrics.json path | default /tmp/rocketmq/export"),
)
async def export_metrics(call: Call) -> Output:
    report: dict[str, Any] = {}
    rates = dict.fromkeys(_TOTALS, 0.0)
    counts: dict[str, int] = {}
    for master, *_ in await addresses_by_broker(call, call["clusterName"]):
        name, broker, tps, day = await _broker(call, master)
        report[name] = broker
        for key, value in tps.items():
            rates[f"total{key[0].upper()}{key[1:]}"] += value
        for key, count in day.items():
            counts[key] = counts.get(key, 0) + count
    totals = {"totalTps": java_format.in_hash_order(rates), "totalOneDayNum": java_format.in_hash_order(counts)}
    document = {"evaluateReport": java_format.in_hash_order(report), "totalData": java_format.in_hash_order(totals)}
    yield await write_document(call, "metrics.json", java_format.in_hash_order(document))


async def _broker(call: Call, address: str) -> tuple[str, dict[str, Any], dict[str, float], dict[str, int]]:
    info = await call.admin.cluster.runtime_info(address)
    config = await call.admin.configuration.broker(address)
    groups = await exported_groups(call, address)
    half_tps, half_day = await _put_counts(call, address, _HALF_TOPIC)
    schedule_tps, schedule_day = await _put_counts(call, address, _SCHEDULE_TOPIC)
    transferred = info.get("getTransferedTps") or info.get("getTransferredTps", "")
    tps = {
        "normalInTps": _first_rate(info.get("putTps", "")),
        "normalOutTps": _first_rate(transferred),
        "transInTps": half_tps,
        "scheduleInTps": schedule_tps,
    }
    day = {
        "normalOneDayInNum": count_yesterday(info, "Put"),
        "normalOneDayOutNum": count_yesterday(info, "Get"),
        "transOneDayInNum": half_day,
        "scheduleOneDayInNum": schedule_day,
    }
    quota = {
        "diskRatio": {name: info.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
        "tps": java_format.in_hash_order(tps),
        "oneDayNum": java_format.in_hash_order(day),
        "messageAverageSize": info.get("putMessageAverageSize"),
        "topicSize": await _topic_count(call, address),
        "groupSize": len(groups),
    }
    environment = {"cpuNum": config.get("clientCallbackExecutorThreads"), "totalMemKBytes": info.get("totalMemKBytes")}
    versions = {"rocketmqVersion": CURRENT_VERSION.name, "clientInfo": await _clients(call, list(groups))}
    parts = {
        "runtimeEnv": environment,
        "runtimeQuota": java_format.in_hash_order(quota),
        "runtimeVersion": java_format.in_hash_order(versions),
    }
    return config.get("brokerName", address), java_format.in_hash_order(parts), tps, day


async def _put_counts(call: Call, address: str, topic: str) -> tuple[float, int]:
    """Return messages per second and per day (per hour or minute if a broker has not run that long)."""
    data = await call.admin.statistics.of_broker(address, "TOPIC_PUT_NUMS", topic)
    if data is None:
        return 0.0, 0
    return data.stats_minute.tps, data.stats_day.sum or data.stats_hour.sum or data.stats_minute.sum


def _first_rate(text: str) -> float:
    """Return the first of the rates that a broker lists for several periods, `10s 60s 600s`."""
    return float(text.split(" ")[0] or 0)


async def _topic_count(call: Call, address: str) -> int:
    system = set(await call.admin.topics.system_names())
    names = await call.admin.topics.all_configs(address)
    return sum(name not in system and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)) for name in names)


async def _clients(call: Call, groups: list[str]) -> list[str]:
    """Return `LANGUAGE%RELEASE` of the consumers, each once."""
    found: dict[str, None] = {}
    for group in groups:
        try:
            clients = await call.admin.connections.consumers(group)
        except KeroloxError:
            continue
        found |= dict.fromkeys(f"{it.language}%{release_name(it.version)}" for it in clients.connection_set)
    return list(java_format.in_hash_order(found))
