"""`mqadmin` commands that inspect topics: routes, status, lists, order configuration and queue allocation."""

import msgspec

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import cluster_of
from kerolox.cli.admin.command import Call, Flag, Output, command, required, switch
from kerolox.cli.admin.errors import CommandFailed, InvalidUsage
from kerolox.cli.admin.java_times import millis_text
from kerolox.cli.admin.output import Cell, Table, Text
from kerolox.cli.admin.topics.topics import TOPIC
from kerolox.client.resource_names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.errors import KeroloxError
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.queues import MessageQueue

_GROUP_TOPIC_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)


@command("topicRoute", "Examine topic route info", TOPIC, switch("l", "list", "Use list format to print data"))
async def topic_route(call: Call) -> Output:
    data = (await call.admin.topics.route(call["topic"])).data
    if not call.has("list"):
        # 4.9 does not have enableActingMaster: leave it out if it is false.
        brokers = [
            {
                "brokerAddrs": broker.broker_addrs,
                "brokerName": broker.broker_name,
                "cluster": broker.cluster,
                "enableActingMaster": broker.enable_acting_master or None,
                "zoneName": broker.zone_name,
            }
            for broker in data.broker_datas
        ]
        names = sorted(zip(data.__struct_encode_fields__, data.__struct_fields__, strict=True))
        members = {name: getattr(data, field) for name, field in names} | {"brokerDatas": brokers}
        yield Text(java_format.pretty_json(members) + "\n", msgspec.to_builtins(data, str_keys=True))
        return
    queues = {queue.broker_name: queue for queue in data.queue_datas}
    rows: list[tuple[object, ...]] = []
    for broker in sorted(data.broker_datas, key=lambda it: it.broker_name):
        queue = queues[broker.broker_name]
        addresses = Cell(java_format.text(broker.broker_addrs), broker.broker_addrs)
        counts = (queue.read_queue_nums, queue.write_queue_nums, queue.perm)
        rows.append((broker.cluster, broker.broker_name, addresses, *counts))
    layout = "%-45s %-32s %-50s %-10s %-11s %-5s"
    columns = ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    yield Table(layout, columns, rows)
    total = ("Total:", len(queues), "", *(sum(int(str(row[at])) for row in rows) for at in (3, 4)), "")
    yield Text("-" * 158 + "\n" + layout % total + "\n")


@command("topicStatus", "Examine topic Status info", TOPIC, is_watchable=True)
async def topic_status(call: Call) -> Output:
    status = await call.admin.topics.status(call["topic"])
    if not status:
        raise CommandFailed(f"no broker reports any queues of topic {call['topic']!r}")
    rows = [
        (queue.broker_name[:32], queue.queue_id, it.min_offset, it.max_offset, _time_cell(it.last_update_timestamp))
        for queue, it in status.items()
    ]
    columns = ("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    yield Table("%-32s  %-4d  %-20d  %-20d    %s", columns, rows)


def _time_cell(millis: int) -> Cell:
    return Cell(millis_text(millis), millis) if millis > 0 else Cell("", None)


@command("topicClusterList", "get cluster info for topic", TOPIC)
async def topic_cluster_list(call: Call) -> Output:
    for cluster in await call.admin.topics.clusters(call["topic"]):
        yield Text(f"{cluster}\n", {"cluster": cluster})


@command("topicList", "Fetch all topic list from name server", switch("c", "clusterModel", "clusterModel"))
async def topic_list(call: Call) -> Output:
    names = await call.admin.topics.names()
    if not call.has("clusterModel"):
        for name in names:
            yield Text(f"{name}\n", {"topic": name})
        return
    info = await call.admin.cluster.info()
    rows: list[tuple[object, ...]] = []
    for name in names:
        if name.startswith(_GROUP_TOPIC_PREFIXES):
            continue
        try:
            broker = (await call.admin.topics.route(name)).data.broker_datas[0].broker_name
            cluster, groups = cluster_of(info, broker), await call.admin.topics.groups(name)
        except KeroloxError:
            # The NameServer still lists a topic that no broker has any more.
            cluster, groups = "", []
        named = Cell((cluster or "")[:20], cluster or None), Cell(name[:64], name)
        rows += [(*named, Cell(group[:64], group or None)) for group in groups or [""]]
    columns = ("#Cluster Name", "#Topic", "#Consumer Group")
    yield Table("%-20s  %-64s  %-64s", columns, rows, heading="%-20s  %-48s  %-48s")


@command(
    "updateOrderConf",
    "Create or update or delete order conf",
    TOPIC,
    Flag("v", "orderConf", "set order conf [eg. brokerName1:num;brokerName2:num]"),
    required("m", "method", "option type [eg. put|get|delete"),
    warning="delete the order configuration of topic {topic}",
    needs_confirmation=lambda call: call["method"] == "delete",
)
async def update_order_conf(call: Call) -> Output:
    topic, method, conf = call["topic"], call["method"], call.get("orderConf")
    if method == "get":
        found = await call.admin.configuration.kv("ORDER_TOPIC_CONFIG", topic)
        if found is None:
            raise CommandFailed(f"topic {topic!r} has no order configuration")
        yield Text(
            f"get orderConf success. topic=[{topic}], orderConf=[{found}] ", {"topic": topic, "orderConf": found}
        )
    elif method == "put":
        if not conf:
            raise InvalidUsage("please set orderConf with option -v.")
        await call.admin.configuration.set_kv("ORDER_TOPIC_CONFIG", topic, conf)
        yield Text(
            f"update orderConf success. topic=[{topic}], orderConf=[{conf}]", {"topic": topic, "orderConf": conf}
        )
    elif method == "delete":
        await call.admin.configuration.delete_kv("ORDER_TOPIC_CONFIG", topic)
        yield Text(f"delete orderConf success. topic=[{topic}]", {"deleted": topic})
    else:
        raise InvalidUsage(f"--method {method!r}: expected put, get or delete")


@command("allocateMQ", "Allocate MQ", TOPIC, required("i", "ipList", "ipList"))
async def allocate_mq(call: Call) -> Output:
    """Show which queues each of these clients would get if they formed a group."""
    clients = call["ipList"].split(",")
    queues = java_format.queues_in_hash_order((await call.admin.topics.route(call["topic"])).read_queues)
    result = java_format.in_hash_order({client: _allocate(queues, clients, client) for client in clients})
    yield Text(fastjson.encode({"result": result}).decode() + "\n", {"result": msgspec.to_builtins(result)})


def _allocate(queues: list[MessageQueue], clients: list[str], client: str) -> list[MessageQueue]:
    """Return the queues of one client (AllocateMessageQueueAveragely)."""
    size, rest = divmod(len(queues), len(clients))
    number = clients.index(client)
    start = number * size + min(number, rest)
    return queues[start : start + size + (1 if number < rest else 0)]
