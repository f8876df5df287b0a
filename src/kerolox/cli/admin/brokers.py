"""Brokers: what they say of themselves, their settings, and what keeps their stores clean."""

from collections.abc import Callable, Coroutine
from typing import Any

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, later, needed
from kerolox.cli.admin.errors import Misused, NotDone, sentence
from kerolox.cli.admin.finding import everybody, masters, members_of
from kerolox.cli.admin.namesrv import check_setting
from kerolox.cli.admin.parts import Cell, Table, Text, settings, value
from kerolox.cli.admin.times import seconds_text
from kerolox.errors import KeroloxError

_WHERE = (Flag("b", "brokerAddr", "Broker address"), Flag("c", "cluster", "clustername"))


@command(
    "brokerStatus",
    "Fetch broker runtime status data",
    Flag("b", "brokerAddr", "Broker address"),
    Flag("c", "clusterName", "which cluster"),
    is_watched=True,
)
async def broker_status(call: Call) -> Parts:
    if not call.has("brokerAddr") and not call.has("clusterName"):
        raise Misused("give one of -b (--brokerAddr), -c (--clusterName)")
    for address in await everybody(call):
        info = dict(sorted((await call.admin.cluster.runtime_info(address)).items()))
        start = "" if call.has("brokerAddr") else f"{address:<24} "
        lines = settings(info.items(), f"{start}%-32s: %s")
        yield Text(lines, {"broker": address, **{name: value(text) for name, text in info.items()}})


@command(
    "getBrokerConfig",
    "Get broker config by cluster or special broker!",
    Flag("b", "brokerAddr", "get which broker"),
    Flag("c", "clusterName", "get which cluster"),
)
async def get_broker_config(call: Call) -> Parts:
    if call.has("brokerAddr"):
        titled = [(call["brokerAddr"], call["brokerAddr"])]
    elif call.has("clusterName"):
        titled = []
        for master, *slaves in await members_of(call, call["clusterName"]):
            titled.append((f"Master: {master}", master))
            titled += [(f"My Master: {master}=====Slave: {slave}", slave) for slave in slaves]
    else:
        raise Misused("give one of -b (--brokerAddr), -c (--clusterName)")
    for title, address in titled:
        values = await call.admin.configuration.broker(address)
        lines = settings(java.in_hash_order(values).items(), "%-50s=  %s")
        yield Text(f"============{title}============\n{lines}\n", {"broker": address, **values})


@command(
    "updateBrokerConfig",
    "Update broker's config",
    Flag("b", "brokerAddr", "update which broker"),
    Flag("c", "clusterName", "update which cluster"),
    needed("k", "key", "config key"),
    needed("v", "value", "config value"),
    later("a", "updateAllBroker", "update all brokers include slave"),
)
async def update_broker_config(call: Call) -> Parts:
    if not call.has("brokerAddr") and not call.has("clusterName"):
        raise Misused("give one of -b (--brokerAddr), -c (--clusterName)")
    failures = []
    for address in await (everybody(call) if call.truth("updateAllBroker") else masters(call)):
        try:
            if not call.is_java:
                values = await call.admin.configuration.broker(address)
                check_setting(call["key"], values, f"getBrokerConfig -b {address}")
            await call.admin.configuration.update_broker({call["key"]: call["value"]}, broker=address)
        except KeroloxError as error:
            # The others are still told.
            failures.append(f"{address}: {sentence(error)}")
        else:
            yield Text(f"update broker config success, {address}\n", {"broker": address, call["key"]: call["value"]})
    if failures:
        raise NotDone("; ".join(failures))


@command(
    "brokerConsumeStats",
    "Fetch broker consume stats data",
    needed("b", "brokerAddr", "Broker address"),
    Flag("t", "timeoutMillis", "request timeout Millis"),
    Flag("l", "level", "threshold of print diff"),
    Flag("o", "order", "order topic"),
    is_watched=True,
)
async def broker_consume_stats(call: Call) -> Parts:
    level = call.number("level")
    stats = await call.admin.offsets.broker_progress(call["brokerAddr"], only_ordered=call.truth("order"))
    rows: list[tuple[object, ...]] = []
    for by_group in stats.consume_stats_list:
        for group, found in by_group.items():
            for queue, offsets in sorted((pair for it in found for pair in it.offset_table.items()), key=_by_topic):
                diff = offsets.broker_offset - offsets.consumer_offset
                if diff < level or offsets.last_timestamp <= 0:
                    continue
                names = (queue.topic[:64], group, queue.broker_name[:32], queue.queue_id)
                moment = Cell(seconds_text(offsets.last_timestamp), offsets.last_timestamp)
                rows.append((*names, offsets.broker_offset, offsets.consumer_offset, diff, moment))
    columns = ("#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
    yield Table("%-64s  %-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s", columns, rows)
    yield Text(f"\nDiff Total: {stats.total_diff}\n", {"diffTotal": stats.total_diff})


def _by_topic(pair: tuple[Any, Any]) -> tuple[str, str, int]:
    return pair[0].topic, pair[0].broker_name, pair[0].queue_id


# Cleaning


@command(
    "cleanExpiredCQ",
    "Clean expired ConsumeQueue on broker.",
    *_WHERE,
    warning="delete what is left of queues whose messages are gone",
)
async def clean_expired_cq(call: Call) -> Parts:
    yield await _cleaned(call, call.admin.cluster.clean_expired_queues)


@command(
    "cleanUnusedTopic",
    "Clean unused topic on broker.",
    Flag("b", "brokerAddr", "Broker address"),
    Flag("c", "cluster", "cluster name"),
    warning="delete the queues of topics that are no more",
)
async def clean_unused_topic(call: Call) -> Parts:
    yield await _cleaned(call, call.admin.cluster.clean_unused_topics)


@command(
    "deleteExpiredCommitLog",
    "Delete expired CommitLog files",
    Flag("n", "namesrvAddr", "Name server address"),
    *_WHERE,
    warning="delete messages that are older than they are to be kept",
)
async def delete_expired_commit_log(call: Call) -> Parts:
    yield await _cleaned(call, call.admin.cluster.delete_expired_commit_log)


async def _cleaned(call: Call, clean: Callable[..., Coroutine[Any, Any, list[str]]]) -> Text:
    """Cleans one broker, a cluster, or all there are."""
    clusters = [call["cluster"]] if call.has("cluster") else list((await call.admin.cluster.info()).cluster_addr_table)
    done: list[str] = []
    if call.has("brokerAddr"):
        done += await clean(broker=call["brokerAddr"])
    else:
        for cluster in clusters:
            done += await clean(cluster=cluster)
    return Text("success" if done else "false", {"brokers": done})
