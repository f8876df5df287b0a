"""`mqadmin` commands for brokers: status, settings, and cleaning their stores."""

from collections.abc import Callable, Coroutine
from typing import Any

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import addresses_by_broker, broker_addresses, master_addresses, require_target
from kerolox.cli.admin.cluster.namesrv import check_setting
from kerolox.cli.admin.command import Call, Flag, Output, command, newer, required
from kerolox.cli.admin.consumers.offsets import queue_sort_key
from kerolox.cli.admin.errors import CommandFailed, describe_error
from kerolox.cli.admin.java_times import seconds_text
from kerolox.cli.admin.output import Cell, Table, Text, key_value_lines, parse_value
from kerolox.errors import KeroloxError

_WHERE = (Flag("b", "brokerAddr", "Broker address"), Flag("c", "cluster", "clustername"))


@command(
    "brokerStatus",
    "Fetch broker runtime status data",
    Flag("b", "brokerAddr", "Broker address"),
    Flag("c", "clusterName", "which cluster"),
    is_watchable=True,
)
async def broker_status(call: Call) -> Output:
    require_target(call)
    for address in await broker_addresses(call):
        info = dict(sorted((await call.admin.cluster.runtime_info(address)).items()))
        start = "" if call.has("brokerAddr") else f"{address:<24} "
        lines = key_value_lines(info.items(), f"{start}%-32s: %s")
        yield Text(lines, {"broker": address, **{name: parse_value(text) for name, text in info.items()}})


@command(
    "getBrokerConfig",
    "Get broker config by cluster or special broker!",
    Flag("b", "brokerAddr", "get which broker"),
    Flag("c", "clusterName", "get which cluster"),
)
async def get_broker_config(call: Call) -> Output:
    require_target(call)
    if call.has("brokerAddr"):
        titles = [(call["brokerAddr"], call["brokerAddr"])]
    else:
        titles = []
        for master, *slaves in await addresses_by_broker(call, call["clusterName"]):
            titles.append((f"Master: {master}", master))
            titles += [(f"My Master: {master}=====Slave: {slave}", slave) for slave in slaves]
    for title, address in titles:
        values = await call.admin.configuration.broker(address)
        lines = key_value_lines(java_format.in_hash_order(values).items(), "%-50s=  %s")
        yield Text(f"============{title}============\n{lines}\n", {"broker": address, **values})


@command(
    "updateBrokerConfig",
    "Update broker's config",
    Flag("b", "brokerAddr", "update which broker"),
    Flag("c", "clusterName", "update which cluster"),
    required("k", "key", "config key"),
    required("v", "value", "config value"),
    newer("a", "updateAllBroker", "update all brokers include slave"),
)
async def update_broker_config(call: Call) -> Output:
    require_target(call)
    failures = []
    for address in await (broker_addresses(call) if call.boolean("updateAllBroker") else master_addresses(call)):
        try:
            if not call.is_java:
                values = await call.admin.configuration.broker(address)
                check_setting(call["key"], values, f"getBrokerConfig -b {address}")
            await call.admin.configuration.update_broker({call["key"]: call["value"]}, broker=address)
        except KeroloxError as error:
            # Go on with the other brokers.
            failures.append(f"{address}: {describe_error(error)}")
        else:
            yield Text(f"update broker config success, {address}\n", {"broker": address, call["key"]: call["value"]})
    if failures:
        raise CommandFailed("; ".join(failures))


@command(
    "brokerConsumeStats",
    "Fetch broker consume stats data",
    required("b", "brokerAddr", "Broker address"),
    Flag("t", "timeoutMillis", "request timeout Millis"),
    Flag("l", "level", "threshold of print diff"),
    Flag("o", "order", "order topic"),
    is_watchable=True,
)
async def broker_consume_stats(call: Call) -> Output:
    level = call.number("level")
    stats = await call.admin.offsets.broker_progress(call["brokerAddr"], only_ordered=call.boolean("order"))
    rows: list[tuple[object, ...]] = []
    for by_group in stats.consume_stats_list:
        for group, found in by_group.items():
            pairs = [pair for it in found for pair in it.offset_table.items()]
            for queue, offsets in sorted(pairs, key=lambda pair: queue_sort_key(pair[0])):
                diff = offsets.broker_offset - offsets.consumer_offset
                if diff < level or offsets.last_timestamp <= 0:
                    continue
                names = (queue.topic[:64], group, queue.broker_name[:32], queue.queue_id)
                last_time = Cell(seconds_text(offsets.last_timestamp), offsets.last_timestamp)
                rows.append((*names, offsets.broker_offset, offsets.consumer_offset, diff, last_time))
    columns = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
    yield Table("%-64s  %-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s", columns, rows)
    yield Text(f"\nDiff Total: {stats.total_diff}\n", {"diffTotal": stats.total_diff})


# Cleaning


@command(
    "cleanExpiredCQ",
    "Clean expired ConsumeQueue on broker.",
    *_WHERE,
    warning="delete consume queue files whose messages have been deleted",
)
async def clean_expired_cq(call: Call) -> Output:
    yield await _clean(call, call.admin.cluster.clean_expired_queues)


@command(
    "cleanUnusedTopic",
    "Clean unused topic on broker.",
    Flag("b", "brokerAddr", "Broker address"),
    Flag("c", "cluster", "cluster name"),
    warning="delete the consume queues of topics that have been deleted",
)
async def clean_unused_topic(call: Call) -> Output:
    yield await _clean(call, call.admin.cluster.clean_unused_topics)


@command(
    "deleteExpiredCommitLog",
    "Delete expired CommitLog files",
    Flag("n", "namesrvAddr", "Name server address"),
    *_WHERE,
    warning="delete commit log files that are older than fileReservedTime",
)
async def delete_expired_commit_log(call: Call) -> Output:
    yield await _clean(call, call.admin.cluster.delete_expired_commit_log)


async def _clean(call: Call, clean: Callable[..., Coroutine[Any, Any, list[str]]]) -> Text:
    """Clean one broker, a cluster, or all clusters."""
    done: list[str] = []
    if call.has("brokerAddr"):
        done += await clean(broker=call["brokerAddr"])
    elif call.has("cluster"):
        done += await clean(cluster=call["cluster"])
    else:
        for cluster in (await call.admin.cluster.info()).cluster_addr_table:
            done += await clean(cluster=cluster)
    return Text("success" if done else "false", {"brokers": done})
