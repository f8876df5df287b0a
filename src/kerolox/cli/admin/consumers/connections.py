"""`mqadmin` commands for connected clients, and for the running info of consumers."""

from pathlib import Path
from typing import Any

import msgspec

from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Flag, Output, command, required, switch
from kerolox.cli.admin.consumers.running_info import analysis, format_running_info
from kerolox.cli.admin.errors import CommandFailed
from kerolox.cli.admin.messages.message_text import file_name
from kerolox.cli.admin.output import Table, Text
from kerolox.cli.private_files import write_file
from kerolox.message.client_versions import release_name
from kerolox.wire.bodies.clients import ConsumerConnection
from kerolox.wire.bodies.running import ConsumerRunningInfo

_GROUP = required("g", "consumerGroup", "consumer group name")
_BROKER = Flag("b", "brokerAddr", "broker address")


@command(
    "consumerConnection",
    "Query consumer's socket connection, client version and subscription",
    _GROUP,
    _BROKER,
    is_watchable=True,
)
async def consumer_connection(call: Call) -> Output:
    found = await call.admin.connections.consumers(call["consumerGroup"], broker=call.get("brokerAddr"))
    rows = [(it.client_id, it.client_addr, it.language, release_name(it.version)) for it in found.connection_set]
    yield Table("%-36s %-22s %-10s %s", ("#ClientId", "#ClientAddr", "#Language", "#Version"), rows)
    yield Text("\nBelow is subscription:\n")
    subscriptions = java_format.in_hash_order(found.subscription_table)
    yield Table(
        "%-20s %s",
        ("#Topic", "#SubExpression"),
        [(it.topic, java_format.text(it.sub_string)) for it in subscriptions.values()],
    )
    values = {
        "ConsumeType": found.consume_type,
        "MessageModel": found.message_model,
        "ConsumeFromWhere": found.consume_from_where,
    }
    yield Text("\n" + "".join(f"{name}: {java_format.text(value)}\n" for name, value in values.items()), values)


@command(
    "producerConnection",
    "Query producer's socket connection and client version",
    required("g", "producerGroup", "producer group name"),
    required("t", "topic", "topic name"),
    is_watchable=True,
)
async def producer_connection(call: Call) -> Output:
    group, topic = call["producerGroup"], call["topic"]
    found = await call.admin.connections.producers(group, topic)
    if not found:
        raise CommandFailed(f"no member of producer group {group!r} is connected to the brokers of topic {topic!r}")
    rows = [
        (number, it.client_id, it.client_addr, it.language, release_name(it.version))
        for number, it in enumerate(found, 1)
    ]
    columns = ("#Number", "#ClientId", "#ClientAddr", "#Language", "#Version")
    yield Table("%04d  %-32s %-22s %-8s %s", columns, rows, has_heading=False)


@command(
    "producer",
    "Query producer's instances, connection, status, etc.",
    required("b", "broker", "broker address"),
    is_watchable=True,
)
async def producer(call: Call) -> Output:
    for group, members in (await call.admin.connections.all_producers(call["broker"])).items():
        if not members:
            yield Text(f"producer group ({group}) instances are empty\n", {"group": group})
        for it in members:
            text = (
                f"clientId={it.client_id},remoteIP={it.remote_ip}, language={it.language}, "
                f"version={it.version}, lastUpdateTimestamp={it.last_update_timestamp}"
            )
            value = {"group": group, **msgspec.to_builtins(it)}
            yield Text(f"producer group ({group}) instance : {text}\n", value)


@command(
    "consumerStatus",
    "Query consumer's internal data structure",
    _GROUP,
    Flag("i", "clientId", "The consumer's client id"),
    _BROKER,
    switch("s", "jstack", "Run jstack command in the consumer progress"),
)
async def consumer_status(call: Call) -> Output:
    group, has_stacks = call["consumerGroup"], call.has("jstack")
    clients = await call.admin.connections.consumers(group, broker=call.get("brokerAddr"))
    client_id = call.get("clientId")
    if client_id is not None:
        info = await call.admin.connections.running_info(group, client_id, has_stacks=has_stacks)
        yield Text(format_running_info(info), {"clientId": client_id, **_json_value(info)})
        return
    infos = {
        it.client_id: await call.admin.connections.running_info(group, it.client_id, has_stacks=has_stacks)
        for it in clients.connection_set
    }
    yield _write_files(clients, infos, str(call.admin.options.clock.millis()))
    yield Text(analysis(infos, call.admin.options.clock.millis()))


def _json_value(info: ConsumerRunningInfo) -> dict[str, Any]:
    # The keys of mqTable are objects, which JSON cannot express: use a list, with the fields of key and value merged.
    queues = [msgspec.to_builtins(queue) | msgspec.to_builtins(it) for queue, it in info.mq_table.items()]
    others = msgspec.structs.asdict(info) | {"mq_table": None}
    named = dict(zip(info.__struct_fields__, info.__struct_encode_fields__, strict=True))
    return {named[name]: msgspec.to_builtins(value) for name, value in others.items()} | {"mqTable": queues}


def _write_files(clients: ConsumerConnection, infos: dict[str, ConsumerRunningInfo], directory: str) -> Table:
    """Write the running info of each client to a file, in a directory named after the time, as Java's tool does."""
    rows: list[tuple[object, ...]] = []
    # Fails if it exists: another user could have created it.
    Path(directory).mkdir(mode=0o700)
    for number, client in enumerate(clients.connection_set, 1):
        path = Path(directory) / file_name(client.client_id)
        write_file(path, format_running_info(infos[client.client_id]).encode(errors="backslashreplace"))
        rows.append((number, client.client_id, release_name(client.version), str(path)))
    columns = ("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
    return Table("%-10d %-40s %-20s %s", columns, rows)
