"""NameServers: their settings, the keys and values they keep, and to whom they have clients send."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Parts, command, needed
from kerolox.cli.admin.errors import NotDone, sentence
from kerolox.cli.admin.parts import Text, settings
from kerolox.errors import KeroloxError

_BROKER = needed("b", "brokerName", "broker name")
_NAMESPACE = needed("s", "namespace", "set the namespace")
_KEY = needed("k", "key", "set the key name")


@command("getNamesrvConfig", "Get configs of name server.")
async def get_namesrv_config(call: Call) -> Parts:
    for address, values in (await call.admin.configuration.name_servers()).items():
        lines = settings(java.in_hash_order(values).items(), "%-50s=  %s")
        yield Text(f"============{address}============\n{lines}", {"nameServer": address, **values})


@command(
    "updateNamesrvConfig",
    "Update configs of name server.",
    needed("k", "key", "config key"),
    needed("v", "value", "config value"),
)
async def update_namesrv_config(call: Call) -> Parts:
    key, value = call["key"], call["value"]
    if not call.is_java:
        for values in (await call.admin.configuration.name_servers()).values():
            check_setting(key, values, "getNamesrvConfig")
    await call.admin.configuration.update_name_servers({key: value})
    servers = call.admin.options.name_servers
    text = f"update name server config success![{', '.join(servers)}]\n{key} : {value}\n"
    yield Text(text, {"nameServers": servers, key: value})


def check_setting(key: str, values: Mapping[str, str], command: str) -> None:
    """Raises NotDone over a setting that is none: a server would take it, and make nothing of it."""
    if key not in values:
        raise NotDone(f"there is no setting {key!r}; `kerolox admin {command}` says which there are")


@command("updateKvConfig", "Create or update KV config.", _NAMESPACE, _KEY, needed("v", "value", "set the key value"))
async def update_kv_config(call: Call) -> Parts:
    await call.admin.configuration.set_kv(call["namespace"], call["key"], call["value"])
    yield Text("create or update kv config to namespace success.\n", {call["key"]: call["value"]})


@command(
    "deleteKvConfig",
    "Delete KV config.",
    _NAMESPACE,
    _KEY,
    warning="delete key {key} of namespace {namespace} from the NameServers",
)
async def delete_kv_config(call: Call) -> Parts:
    # Java says that it has deleted what never was there.
    if not call.is_java and await call.admin.configuration.kv(call["namespace"], call["key"]) is None:
        raise NotDone(f"namespace {call['namespace']!r} has no key {call['key']!r}")
    await call.admin.configuration.delete_kv(call["namespace"], call["key"])
    yield Text("delete kv config from namespace success.\n", {"deleted": call["key"]})


@command(
    "wipeWritePerm",
    "Wipe write perm of broker in all name server you defined in the -n param",
    _BROKER,
    warning="have clients send nothing to broker {brokerName} any more",
)
async def wipe_write_perm(call: Call) -> Parts:
    async for part in _permitted(call, "wipe", call.admin.cluster.wipe_write_permission):
        yield part


@command("addWritePerm", "Add write perm of broker in all name server you defined in the -n param", _BROKER)
async def add_write_perm(call: Call) -> Parts:
    async for part in _permitted(call, "add", call.admin.cluster.add_write_permission):
        yield part


async def _permitted(call: Call, verb: str, change: Callable[..., Coroutine[Any, Any, int]]) -> Parts:
    broker = call["brokerName"]
    failures = []
    total = 0
    for server in call.admin.options.name_servers:
        start = f"{verb} write perm of broker[{broker}] in name server[{server}]"
        try:
            count = await change(broker, name_server=server)
        except KeroloxError as error:
            failures.append(sentence(error))
            yield Text(f"{start} Failed\n", {"nameServer": server, "broker": broker, "error": sentence(error)})
        else:
            total += count
            yield Text(f"{start} OK, {count}\n", {"nameServer": server, "broker": broker, "topics": count})
    if failures:
        raise NotDone("; ".join(failures))
    if not total and not call.is_java:
        raise NotDone(f"no topic has queues on a broker {broker!r}; `kerolox admin clusterList` says which there are")
