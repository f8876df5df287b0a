"""Clients: who is connected, and what consumers say of themselves."""

from pathlib import Path
from typing import Any

import msgspec

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, needed, switch
from kerolox.cli.admin.errors import NotDone
from kerolox.cli.admin.parts import Table, Text
from kerolox.cli.admin.running import complaints, described
from kerolox.cli.admin.shown import file_name
from kerolox.wire.bodies.clients import ConsumerConnection
from kerolox.wire.bodies.running import ConsumerRunningInfo

_GROUP = needed("g", "consumerGroup", "consumer group name")
_BROKER = Flag("b", "brokerAddr", "broker address")


@command(
    "consumerConnection",
    "Query consumer's socket connection, client version and subscription",
    _GROUP,
    _BROKER,
    is_watched=True,
)
async def consumer_connection(call: Call) -> Parts:
    found = await call.admin.connections.consumers(call["consumerGroup"], broker=call.get("brokerAddr"))
    rows = [(it.client_id, it.client_addr, it.language, java.version(it.version)) for it in found.connection_set]
    yield Table("%-36s %-22s %-10s %s", ("#ClientId", "#ClientAddr", "#Language", "#Version"), rows)
    yield Text("\nBelow is subscription:\n")
    subscriptions = java.in_hash_order(found.subscription_table)
    yield Table(
        "%-20s %s",
        ("#Topic", "#SubExpression"),
        [(it.topic, java.text(it.sub_string)) for it in subscriptions.values()],
    )
    values = {
        "ConsumeType": found.consume_type,
        "MessageModel": found.message_model,
        "ConsumeFromWhere": found.consume_from_where,
    }
    yield Text("\n" + "".join(f"{name}: {java.text(value)}\n" for name, value in values.items()), values)


@command(
    "producerConnection",
    "Query producer's socket connection and client version",
    needed("g", "producerGroup", "producer group name"),
    needed("t", "topic", "topic name"),
    is_watched=True,
)
async def producer_connection(call: Call) -> Parts:
    group, topic = call["producerGroup"], call["topic"]
    found = await call.admin.connections.producers(group, topic)
    if not found:
        raise NotDone(f"nobody of producer group {group!r} is connected to the brokers of topic {topic!r}")
    rows = [
        (number, it.client_id, it.client_addr, it.language, java.version(it.version))
        for number, it in enumerate(found, 1)
    ]
    columns = ("#Number", "#ClientId", "#ClientAddr", "#Language", "#Version")
    yield Table("%04d  %-32s %-22s %-8s %s", columns, rows, has_heading=False)


@command(
    "producer",
    "Query producer's instances, connection, status, etc.",
    needed("b", "broker", "broker address"),
    is_watched=True,
)
async def producer(call: Call) -> Parts:
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
async def consumer_status(call: Call) -> Parts:
    group, has_stacks = call["consumerGroup"], call.has("jstack")
    clients = await call.admin.connections.consumers(group, broker=call.get("brokerAddr"))
    client_id = call.get("clientId")
    if client_id is not None:
        info = await call.admin.connections.running_info(group, client_id, has_stacks=has_stacks)
        yield Text(described(info), {"clientId": client_id, **_value(info)})
        return
    infos = {
        it.client_id: await call.admin.connections.running_info(group, it.client_id, has_stacks=has_stacks)
        for it in clients.connection_set
    }
    yield _files(clients, infos, str(call.admin.options.clock.millis()))
    yield Text(complaints(infos, call.admin.options.clock.millis()))


def _value(info: ConsumerRunningInfo) -> dict[str, Any]:
    queues = [msgspec.to_builtins(queue) | msgspec.to_builtins(it) for queue, it in info.mq_table.items()]
    others = msgspec.structs.asdict(info) | {"mq_table": None}
    named = dict(zip(info.__struct_fields__, info.__struct_encode_fields__, strict=True))
    return {named[name]: msgspec.to_builtins(value) for name, value in others.items()} | {"mqTable": queues}


def _files(clients: ConsumerConnection, infos: dict[str, ConsumerRunningInfo], directory: str) -> Table:
    """What each client says goes to a file in a directory that is named after the time, as with Java's tool."""
    rows: list[tuple[object, ...]] = []
    for number, client in enumerate(clients.connection_set, 1):
        path = Path(directory) / file_name(client.client_id)
        path.parent.mkdir(exist_ok=True)
        path.write_text(described(infos[client.client_id]))
        rows.append((number, client.client_id, java.version(client.version), str(path)))
    columns = ("#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
    return Table("%-10d %-40s %-20s %s", columns, rows)
