"""The access lists of brokers of 4.x."""

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, needed
from kerolox.cli.admin.errors import Misused
from kerolox.cli.admin.finding import everybody, masters
from kerolox.cli.admin.parts import Cell, Table, Text
from kerolox.cli.admin.times import seconds_text
from kerolox.cli.admin.topics import where

# What brokers take; they would answer with the secret.
_KEY_MIN = 7


def _check_keys(call: Call) -> None:
    for name in ("accessKey", "secretKey"):
        if len(call[name]) < _KEY_MIN:
            raise Misused(f"--{name} is too short: brokers take {_KEY_MIN} characters and more")


@command(
    "updateAclConfig",
    "Update acl config yaml file in broker",
    *where("update acl config file to which"),
    needed("a", "accessKey", "set accessKey in acl config file"),
    needed("s", "secretKey", "set secretKey in acl config file"),
    Flag("w", "whiteRemoteAddress", "set white ip Address for account in acl config file"),
    Flag("i", "defaultTopicPerm", "set default topicPerm in acl config file"),
    Flag("u", "defaultGroupPerm", "set default GroupPerm in acl config file"),
    Flag("t", "topicPerms", "set topicPerms list,eg: topicA=DENY,topicD=SUB"),
    Flag("g", "groupPerms", "set groupPerms list,eg: groupD=DENY,groupD=SUB"),
    Flag("m", "admin", "set admin flag in acl config file"),
    check=_check_keys,
)
async def update_acl_config(call: Call) -> Parts:
    topics, groups = _perms(call, "topicPerms"), _perms(call, "groupPerms")
    for address in await everybody(call):
        await call.admin.access.update(
            address,
            call["accessKey"],
            call["secretKey"],
            is_admin=call.truth("admin"),
            white_address=call.get("whiteRemoteAddress"),
            default_topic_perm=call.get("defaultTopicPerm"),
            default_group_perm=call.get("defaultGroupPerm"),
            topic_perms=topics,
            group_perms=groups,
        )
        text = f"create or update plain access config to {address} success.\n"
        yield Text(text, {"broker": address, "accessKey": call["accessKey"]})
    # Java names its object, PlainAccessConfig@4e07b95f.
    yield Text(f"account's accesskey is:{call['accessKey']}")


def _perms(call: Call, name: str) -> dict[str, str] | None:
    text = call.get(name)
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise Misused(f"--{name} {text!r}: expected such as topicA=DENY,topicD=SUB")
    return {key: value for key, _, value in pairs}


@command(
    "deleteAclConfig",
    "Delete Acl Config Account in broker",
    *where("delete acl config account from which"),
    needed("a", "accessKey", "set accessKey in acl config file for deleting which account"),
    alias="deleteAccessConfig",
    warning="delete the account {accessKey}",
)
async def delete_acl_config(call: Call) -> Parts:
    for address in await everybody(call):
        await call.admin.access.delete(address, call["accessKey"])
        text = f"delete plain access config account from {address} success.\n"
        yield Text(text, {"broker": address, "deleted": call["accessKey"]})
    yield Text(f"account's accesskey is:{call['accessKey']}")


@command(
    "updateGlobalWhiteAddr",
    "Update global white address for acl Config File in broker",
    *where("update global white address to which"),
    needed("g", "globalWhiteRemoteAddresses", "set globalWhiteRemoteAddress list,eg: 10.10.103.*,192.168.0.*"),
    Flag("p", "aclFileFullPath", "update global white address of specified acl file,eg: /xxx/plain_test.yml"),
)
async def update_global_white_addr(call: Call) -> Parts:
    addresses = call["globalWhiteRemoteAddresses"].split(",")
    for address in await everybody(call):
        await call.admin.access.set_white_addresses(address, addresses, file=call.get("aclFileFullPath"))
        text = f"update global white remote addresses to {address} success.\n"
        yield Text(text, {"broker": address, "globalWhiteRemoteAddresses": addresses})


@command(
    "clusterAclConfigVersion",
    "List all of acl config version information in cluster",
    Flag("b", "brokerAddr", "query acl config version for which broker", is_choice=True),
    Flag("c", "clusterName", "query acl config version for specified cluster", is_choice=True),
)
async def cluster_acl_config_version(call: Call) -> Parts:
    rows: list[tuple[object, ...]] = []
    for address in await masters(call):
        cluster, broker, files = await call.admin.access.versions(address)
        rows += [
            (cluster, broker, address, path, version.counter, Cell(seconds_text(version.timestamp), version.timestamp))
            for path, version in java.in_hash_order(files).items()
        ]
    columns = (
        *("#Cluster Name", "#Broker Name", "#Broker Addr"),
        *("#AclFilePath", "#AclConfigVersionNum", "#AclLastUpdateTime"),
    )
    is_of_broker = call.has("brokerAddr")
    yield Table("%-16s  %-22s  %-22s  %-20s  %-22s  %-22s", columns, rows, has_heading=not is_of_broker)
    whose = "broker" if is_of_broker else "cluster"
    yield Text(f"get {whose}'s plain access config version success.\n")
