"""`mqadmin` commands for NameServers: settings, KV configuration, and write permission of brokers."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Output, command, required
from kerolox.cli.admin.errors import CommandFailed, describe_error
from kerolox.cli.admin.output import Text, key_value_lines
from kerolox.errors import KeroloxError

_BROKER = required("b", "brokerName", "broker name")
_NAMESPACE = required("s", "namespace", "set the namespace")
_KEY = required("k", "key", "set the key name")


@command("getNamesrvConfig", "Get configs of name server.")
async def get_namesrv_config(call: Call) -> Output:
    for address, values in (await call.admin.configuration.name_servers()).items():
        lines = key_value_lines(java_format.in_hash_order(values).items(), "%-50s=  %s")
        yield Text(f"============{address}============\n{lines}", {"nameServer": address, **values})


@command(
    "updateNamesrvConfig",
    "Update configs of name server.",
    required("k", "key", "config key"),
    required("v", "value", "config value"),
)
async def update_namesrv_config(call: Call) -> Output:
    key, value = call["key"], call["value"]
    if not call.is_java:
        for values in (await call.admin.configuration.name_servers()).values():
            check_setting(key, values, "getNamesrvConfig")
    await call.admin.configuration.update_name_servers({key: value})
    servers = call.admin.options.name_servers
    text = f"update name server config success![{', '.join(servers)}]\n{key} : {value}\n"
    yield Text(text, {"nameServers": servers, key: value})


def check_setting(key: str, values: Mapping[str, str], command: str) -> None:
    """Raise CommandFailed over an unknown setting, which a server would accept and ignore."""
    if key not in values:
        raise CommandFailed(f"unknown setting {key!r}; `kerolox admin {command}` lists the settings")


@command("updateKvConfig", "Create or update KV config.", _NAMESPACE, _KEY, required("v", "value", "set the key value"))
async def update_kv_config(call: Call) -> Output:
    await call.admin.configuration.set_kv(call["namespace"], call["key"], call["value"])
    yield Text("create or update kv config to namespace success.\n", {call["key"]: call["value"]})


@command(
    "deleteKvConfig",
    "Delete KV config.",
    _NAMESPACE,
    _KEY,
    warning="delete key {key} of namespace {namespace} from the NameServers",
)
async def delete_kv_config(call: Call) -> Output:
    # Java reports success for a key that does not exist.
    if not call.is_java and await call.admin.configuration.kv(call["namespace"], call["key"]) is None:
        raise CommandFailed(f"namespace {call['namespace']!r} has no key {call['key']!r}")
    await call.admin.configuration.delete_kv(call["namespace"], call["key"])
    yield Text("delete kv config from namespace success.\n", {"deleted": call["key"]})


@command(
    "wipeWritePerm",
    "Wipe write perm of broker in all name server you defined in the -n param",
    _BROKER,
    warning="stop clients from sending to broker {brokerName}",
)
async def wipe_write_perm(call: Call) -> Output:
    async for part in _change_write_perm(call, "wipe", call.admin.cluster.wipe_write_permission):
        yield part


@command("addWritePerm", "Add write perm of broker in all name server you defined in the -n param", _BROKER)
async def add_write_perm(call: Call) -> Output:
    async for part in _change_write_perm(call, "add", call.admin.cluster.add_write_permission):
        yield part


async def _change_write_perm(call: Call, verb: str, change: Callable[..., Coroutine[Any, Any, int]]) -> Output:
    broker = call["brokerName"]
    failures = []
    total = 0
    for server in call.admin.options.name_servers:
        start = f"{verb} write perm of broker[{broker}] in name server[{server}]"
        try:
            count = await change(broker, name_server=server)
        except KeroloxError as error:
            failures.append(describe_error(error))
            yield Text(f"{start} Failed\n", {"nameServer": server, "broker": broker, "error": describe_error(error)})
        else:
            total += count
            yield Text(f"{start} OK, {count}\n", {"nameServer": server, "broker": broker, "topics": count})
    if failures:
        raise CommandFailed("; ".join(failures))
    if not total and not call.is_java:
        raise CommandFailed(f"no topic has queues on broker {broker!r}; `kerolox admin clusterList` lists the brokers")
