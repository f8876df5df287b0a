"""`mqadmin` commands for controllers: leaders, sync state sets, elections, settings, and epochs of brokers."""

import msgspec

from kerolox.admin import UnknownBroker
from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import addresses_by_broker
from kerolox.cli.admin.cluster.namesrv import check_setting
from kerolox.cli.admin.command import Call, Flag, Output, command, pause, required, switch
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.output import Text, key_value_lines
from kerolox.remoting.address import parse_addresses
from kerolox.wire.bodies.controller import EpochEntryCache, ReplicaIdentity, ReplicasInfo

_CONTROLLER = required("a", "controllerAddress", "the address of controller")
_CAPITAL_CONTROLLER = required("a", "controllerAddress", "The address of controller")
_CONTROLLERS = required("a", "controllerAddress", "Controller address list, eg: 192.168.0.1:9878;192.168.0.2:9878")
_NAME = required("bn", "brokerName", "The broker name of the replicas that require to be manipulated")
_INTERVAL = Flag("i", "interval", "the interval(second) of get info")


def _require_brokers(call: Call) -> None:
    if not call.has("brokerName") and not call.has("clusterName"):
        raise InvalidUsage("give one of -b (--brokerName), -c (--clusterName)")


@command(
    "getSyncStateSet",
    "Fetch syncStateSet for target brokers.",
    _CONTROLLER,
    Flag("c", "clusterName", "which cluster"),
    Flag("b", "brokerName", "which broker to fetch"),
    _INTERVAL,
    is_watchable=True,
    since="5.0.0",
    check=_require_brokers,
)
async def get_sync_state_set(call: Call) -> Output:
    while True:
        if call.has("brokerName"):
            names = [call["brokerName"]]
        else:
            names = (await call.admin.cluster.info()).cluster_addr_table.get(call["clusterName"], [])
        found = await call.admin.controllers.sync_state(call["controllerAddress"], names) if names else {}
        for name, info in java_format.in_hash_order(found).items():
            yield _sync_state(name, info)
        if not call.number("interval"):
            return
        await pause(call.number("interval"))


def _sync_state(name: str, info: ReplicasInfo) -> Text:
    values = {
        "brokerName": name,
        "MasterBrokerId": info.master_broker_id,
        "MasterAddr": info.master_address,
        "MasterEpoch": info.master_epoch,
        "SyncStateSetEpoch": info.sync_state_set_epoch,
        "SyncStateSetNums": len(info.in_sync_replicas),
    }
    lines = "".join(f"#{key}\t{java_format.text(value)}\n" for key, value in values.items())
    lines += "".join(f"\nInSyncReplica:\t{_replica(it)}\n" for it in info.in_sync_replicas)
    lines += "".join(f"\nNotInSyncReplica:\t{_replica(it)}\n" for it in info.not_in_sync_replicas)
    return Text(f"\n{lines}", {"brokerName": name, **msgspec.to_builtins(info)})


def _replica(it: ReplicaIdentity) -> str:
    return (
        f"ReplicaIdentity{{brokerName='{it.broker_name}', brokerId={it.broker_id}, "
        f"brokerAddress='{it.broker_address}', alive={java_format.text(it.alive)}}}"
    )


@command(
    "getBrokerEpoch",
    "Fetch broker epoch entries.",
    Flag("c", "clusterName", "which cluster", is_choice=True),
    Flag("b", "brokerName", "which broker to fetch", is_choice=True),
    _INTERVAL,
    is_watchable=True,
    since="5.0.0",
)
async def get_broker_epoch(call: Call) -> Output:
    while True:
        for address in await _members(call):
            yield _epochs(address, await call.admin.controllers.broker_epochs(address))
        if not call.number("interval"):
            return
        await pause(call.number("interval"))


async def _members(call: Call) -> list[str]:
    """Return the addresses of all members of a broker group, or of a cluster."""
    name = call.get("brokerName")
    if name is None:
        return [address for group in await addresses_by_broker(call, call["clusterName"]) for address in group]
    brokers = (await call.admin.cluster.info()).broker_addr_table
    if name not in brokers:
        raise UnknownBroker(f"broker {name!r} is not known. Known: {', '.join(sorted(brokers)) or 'none'}")
    return [address for _, address in sorted(brokers[name].broker_addrs.items())]


def _epochs(address: str, cache: EpochEntryCache) -> Text:
    if cache.epoch_list:
        # The last epoch has no end yet.
        cache.epoch_list[-1].end_offset = cache.max_offset
    head = (
        f"\n#clusterName\t{cache.cluster_name}\n#brokerName\t{cache.broker_name}\n#brokerAddr\t{address}\n"
        f"#brokerId\t{cache.broker_id}\n"
    )
    epochs = "".join(
        f"#Epoch: EpochEntry{{epoch={it.epoch}, startOffset={it.start_offset}, endOffset={it.end_offset}}}\n"
        for it in cache.epoch_list
    )
    return Text(head + epochs, {"brokerAddr": address, **msgspec.to_builtins(cache)})


@command("getControllerMetaData", "Get controller cluster's metadata.", _CONTROLLER, since="5.0.0")
async def get_controller_metadata(call: Call) -> Output:
    found = await call.admin.controllers.metadata(call["controllerAddress"])
    peers = [peer for peer in (found.peers or "").split(";") if peer]
    lines = (
        f"\n#ControllerGroup\t{java_format.text(found.group)}"
        f"\n#ControllerLeaderId\t{java_format.text(found.controller_leader_id)}"
        f"\n#ControllerLeaderAddress\t{java_format.text(found.controller_leader_address)}\n"
    )
    values = {
        "controllerGroup": found.group,
        "controllerLeaderId": found.controller_leader_id,
        "controllerLeaderAddress": found.controller_leader_address,
        "peers": peers,
    }
    yield Text(lines + "".join(f"#Peer:\t{peer}\n" for peer in peers), values)


@command("getControllerConfig", "Get controller config.", _CONTROLLERS, since="5.0.0")
async def get_controller_config(call: Call) -> Output:
    for address, values in (await call.admin.controllers.configs(call["controllerAddress"])).items():
        lines = key_value_lines(java_format.in_hash_order(values).items(), "%-50s=  %s")
        yield Text(f"============{address}============\n{lines}", {"controller": address, **values})


@command(
    "updateControllerConfig",
    "Update controller config.",
    _CONTROLLERS,
    required("k", "key", "config key"),
    required("v", "value", "config value"),
    since="5.0.0",
)
async def update_controller_config(call: Call) -> Output:
    addresses, key, value = call["controllerAddress"], call["key"], call["value"]
    if not call.is_java:
        for values in (await call.admin.controllers.configs(addresses)).values():
            check_setting(key, values, f"getControllerConfig -a {addresses}")
    await call.admin.controllers.update_configs(addresses, {key: value})
    listed = parse_addresses(addresses)
    text = f"update controller config success![{', '.join(listed)}]\n{key} : {value}\n"
    yield Text(text, {"controllers": listed, key: value})


@command(
    "electMaster",
    "Re-elect the specified broker as master.",
    _CAPITAL_CONTROLLER,
    required("b", "brokerId", "The id of the broker which requires to become master"),
    _NAME,
    required("c", "clusterName", "the clusterName of broker"),
    warning="make broker {brokerId} the master of {brokerName}",
    since="5.0.0",
    check=lambda call: call.number("brokerId"),
)
async def elect_master(call: Call) -> Output:
    cluster, name = call["clusterName"], call["brokerName"]
    done = await call.admin.controllers.elect_master(
        call["controllerAddress"], name, call.number("brokerId"), cluster=cluster
    )
    lines = (
        f"\n#ClusterName\t{cluster}\n#BrokerName\t{name}\n#BrokerMasterAddr\t{java_format.text(done.master_address)}"
        f"\n#MasterEpoch\t{done.master_epoch}\n#SyncStateSetEpoch\t{done.sync_state_set_epoch}\n"
    )
    lines += "".join(f"\t#Broker\t{number}\t{address}\n" for number, address in done.brokers.items())
    yield Text(
        lines,
        {
            "clusterName": cluster,
            "brokerName": name,
            "masterBrokerId": done.master_id,
            "masterAddress": done.master_address,
            "masterEpoch": done.master_epoch,
            "syncStateSetEpoch": done.sync_state_set_epoch,
        },
    )


def _check_clean(call: Call) -> None:
    _ids(call)
    if not call.has("cleanLivingBroker") and not call.has("clusterName"):
        raise InvalidUsage("cleanLivingBroker option is false, clusterName option can not be empty.")


def _ids(call: Call) -> list[int]:
    try:
        return [int(part) for part in (call.get("brokerControllerIdsToClean") or "").split(";") if part.strip()]
    except ValueError:
        raise InvalidUsage(
            "please set the option <brokerControllerIdsToClean> according to the format: 1;2;3"
        ) from None


@command(
    "cleanBrokerMetadata",
    "Clean metadata of broker on controller.",
    _CAPITAL_CONTROLLER,
    Flag(
        "b",
        "brokerControllerIdsToClean",
        "The brokerController id list which requires to clean metadata. eg: 1;2;3, means that clean broker-1, broker-2 "
        "and broker-3",
    ),
    _NAME,
    Flag("c", "clusterName", "The clusterName of broker"),
    switch("l", "cleanLivingBroker", "Whether clean up living brokers,default value is false"),
    warning="remove brokers of {brokerName} from the controller; what only they hold is lost",
    since="5.0.0",
    check=_check_clean,
)
async def clean_broker_metadata(call: Call) -> Output:
    name = call["brokerName"]
    await call.admin.controllers.clean_broker_data(
        call["controllerAddress"],
        name,
        broker_ids=_ids(call),
        cluster=call.get("clusterName"),
        with_living=call.has("cleanLivingBroker"),
    )
    yield Text(f"clear broker {name} metadata from controller success! \n", {"cleaned": name})
