"""`mqadmin` commands for the ACL files (plain_acl.yml) of 4.x brokers."""

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import broker_addresses, master_addresses
from kerolox.cli.admin.command import Call, Flag, Output, command, required
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.java_times import seconds_text
from kerolox.cli.admin.output import Cell, Table, Text
from kerolox.cli.admin.topics.topics import target_flags

# The minimum of brokers. Checked here because the error of a broker would print the secret key.
_KEY_LENGTH_MIN = 7


def _check_keys(call: Call) -> None:
    for name in ("accessKey", "secretKey"):
        if len(call[name]) < _KEY_LENGTH_MIN:
            raise InvalidUsage(f"--{name} is too short: brokers require at least {_KEY_LENGTH_MIN} characters")


@command(
    "updateAclConfig",
    "Update acl config yaml file in broker",
    *target_flags("update acl config file to which"),
    required("a", "accessKey", "set accessKey in acl config file"),
    required("s", "secretKey", "set secretKey in acl config file"),
    Flag("w", "whiteRemoteAddress", "set white ip Address for account in acl config file"),
    Flag("i", "defaultTopicPerm", "set default topicPerm in acl config file"),
    Flag("u", "defaultGroupPerm", "set default GroupPerm in acl config file"),
    Flag("t", "topicPerms", "set topicPerms list,eg: topicA=DENY,topicD=SUB"),
    Flag("g", "groupPerms", "set groupPerms list,eg: groupD=DENY,groupD=SUB"),
    Flag("m", "admin", "set admin flag in acl config file"),
    check=_check_keys,
)
async def update_acl_config(call: Call) -> Output:
    topics, groups = _perms(call, "topicPerms"), _perms(call, "groupPerms")
    for address in await broker_addresses(call):
        await call.admin.access.update(
            address,
            call["accessKey"],
            call["secretKey"],
            is_admin=call.boolean("admin"),
            white_address=call.get("whiteRemoteAddress"),
            default_topic_perm=call.get("defaultTopicPerm"),
            default_group_perm=call.get("defaultGroupPerm"),
            topic_perms=topics,
            group_perms=groups,
        )
        text = f"create or update plain access config to {address} success.\n"
        yield Text(text, {"broker": address, "accessKey": call["accessKey"]})
    # Java prints the object's identity here, such as PlainAccessConfig@4e07b95f.
    yield Text(f"account's accesskey is:{call['accessKey']}")


def _perms(call: Call, name: str) -> dict[str, str] | None:
    text = call.get(name)
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise InvalidUsage(f"--{name} {text!r}: expected a list like topicA=DENY,topicD=SUB")
    return {key: value for key, _, value in pairs}


@command(
    "deleteAclConfig",
    "Delete Acl Config Account in broker",
    *target_flags("delete acl config account from which"),
    required("a", "accessKey", "set accessKey in acl config file for deleting which account"),
    alias="deleteAccessConfig",
    warning="delete the account {accessKey}",
)
async def delete_acl_config(call: Call) -> Output:
    for address in await broker_addresses(call):
        await call.admin.access.delete(address, call["accessKey"])
        text = f"delete plain access config account from {address} success.\n"
        yield Text(text, {"broker": address, "deleted": call["accessKey"]})
    yield Text(f"account's accesskey is:{call['accessKey']}")


@command(
    "updateGlobalWhiteAddr",
    "Update global white address for acl Config File in broker",
    *target_flags("update global white address to which"),
    required("g", "globalWhiteRemoteAddresses", "set globalWhiteRemoteAddress list,eg: 10.10.103.*,192.168.0.*"),
    Flag("p", "aclFileFullPath", "update global white address of specified acl file,eg: /xxx/plain_test.yml"),
)
async def update_global_white_addr(call: Call) -> Output:
    addresses = call["globalWhiteRemoteAddresses"].split(",")
    for address in await broker_addresses(call):
        await call.admin.access.set_white_addresses(address, addresses, file=call.get("aclFileFullPath"))
        text = f"update global white remote addresses to {address} success.\n"
        yield Text(text, {"broker": address, "globalWhiteRemoteAddresses": addresses})


@command(
    "clusterAclConfigVersion",
    "List all of acl config version information in cluster",
    Flag("b", "brokerAddr", "query acl config version for which broker", is_choice=True),
    Flag("c", "clusterName", "query acl config version for specified cluster", is_choice=True),
)
async def cluster_acl_config_version(call: Call) -> Output:
    rows: list[tuple[object, ...]] = []
    for address in await master_addresses(call):
        cluster, broker, files = await call.admin.access.versions(address)
        rows += [
            (cluster, broker, address, path, version.counter, Cell(seconds_text(version.timestamp), version.timestamp))
            for path, version in java_format.in_hash_order(files).items()
        ]
    columns = (
        *("#Cluster Name", "#Broker Name", "#Broker Addr"),
        *("#AclFilePath", "#AclConfigVersionNum", "#AclLastUpdateTime"),
    )
    has_broker_flag = call.has("brokerAddr")
    yield Table("%-16s  %-22s  %-22s  %-20s  %-22s  %-22s", columns, rows, has_heading=not has_broker_flag)
    owner = "broker" if has_broker_flag else "cluster"
    yield Text(f"get {owner}'s plain access config version success.\n")
