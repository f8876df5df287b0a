"""`mqadmin` commands for the users of 5.3 brokers and later."""

from collections.abc import Iterable

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import broker_addresses, master_addresses
from kerolox.cli.admin.command import Call, Flag, Output, command, required
from kerolox.cli.admin.errors import CommandFailed, InvalidUsage
from kerolox.cli.admin.output import Table, Text
from kerolox.cli.admin.topics.topics import target_flags
from kerolox.wire.bodies.auth import UserInfo

_SINCE = "5.3.0"
_STATES = {"enable": True, "disable": False}
_TYPES = {"super": True, "normal": False}


def _is_super(call: Call) -> bool | None:
    """Return None if no type is given. Unknown types are refused here, since brokers do not refuse them."""
    text = call.get("userType")
    if text is not None and text.lower() not in _TYPES:
        raise InvalidUsage(f"--userType {text!r}: expected Super or Normal")
    return None if text is None else _TYPES[text.lower()]


@command(
    "createUser",
    "Create user to cluster.",
    *target_flags("create user to which"),
    required("u", "username", "the username of user to create."),
    required("p", "password", "the password of user to create"),
    Flag("t", "userType", "the userType of user to create"),
    since=_SINCE,
)
async def create_user(call: Call) -> Output:
    name, is_super = call["username"], bool(_is_super(call))
    for address in await broker_addresses(call):
        await call.admin.users.create(name, call["password"], is_super=is_super, broker=address)
        yield Text(f"create user to {address} success.\n", {"broker": address, "username": name})


@command(
    "updateUser",
    "Update user to cluster.",
    *target_flags("update user to which"),
    required("u", "username", "the username of user to update."),
    Flag("p", "password", "the password of user to update"),
    Flag("t", "userType", "the userType of user to update"),
    Flag("s", "userStatus", "the userStatus of user to update"),
    since=_SINCE,
)
async def update_user(call: Call) -> Output:
    state = call.get("userStatus")
    if state is not None and state not in _STATES:
        raise InvalidUsage(f"--userStatus {state!r}: expected enable or disable")
    if not any(call.has(name) for name in ("password", "userType", "userStatus")):
        raise InvalidUsage("give one of -p (--password), -t (--userType), -s (--userStatus)")
    is_super = _is_super(call)
    for address in await broker_addresses(call):
        await call.admin.users.update(
            call["username"],
            password=call.get("password"),
            is_super=is_super,
            is_enabled=None if state is None else _STATES[state],
            broker=address,
        )
        yield Text(f"update user to {address} success.\n", {"broker": address, "username": call["username"]})


@command(
    "deleteUser",
    "Delete user from cluster.",
    *target_flags("delete user from which"),
    required("u", "username", "the username of user to delete."),
    warning="delete user {username} and its permissions",
    since=_SINCE,
)
async def delete_user(call: Call) -> Output:
    addresses = await broker_addresses(call)
    # Java reports success for a user that does not exist.
    if not call.is_java and not any(
        [await call.admin.users.find(call["username"], broker=address) for address in addresses]
    ):
        raise _unknown_user(call)
    for address in addresses:
        await call.admin.users.delete(call["username"], broker=address)
        yield Text(f"delete user to {address} success.\n", {"broker": address, "deleted": call["username"]})


@command(
    "getUser",
    "Get user from cluster.",
    Flag("b", "brokerAddr", "get user for which broker", is_choice=True),
    Flag("c", "clusterName", "get user for specified cluster", is_choice=True),
    required("u", "username", "the username of user to get"),
    since=_SINCE,
)
async def get_user(call: Call) -> Output:
    for address in await master_addresses(call):
        user = await call.admin.users.find(call["username"], broker=address)
        if user is not None:
            yield _users([user])
            return
    # Java prints nothing for an unknown user.
    if not call.is_java:
        raise _unknown_user(call)


def _unknown_user(call: Call) -> CommandFailed:
    return CommandFailed(f"unknown user {call['username']!r}; `kerolox admin listUser` lists the users")


@command(
    "listUser",
    "List user from cluster.",
    Flag("b", "brokerAddr", "list user for which broker", is_choice=True),
    Flag("c", "clusterName", "list user for specified cluster", is_choice=True),
    Flag("f", "filter", "the filter to list users"),
    since=_SINCE,
)
async def list_user(call: Call) -> Output:
    for address in await master_addresses(call):
        users = await call.admin.users.matching(call.get("filter"), broker=address)
        if users:
            yield _users(users)
            if call.has("clusterName"):
                yield Text(f"get user from {address} success.\n")
            return


def _users(users: Iterable[UserInfo]) -> Table:
    rows = [
        (it.username, java_format.text(it.password), java_format.text(it.user_type), java_format.text(it.user_status))
        for it in users
    ]
    return Table("%-16s  %-22s  %-22s  %-22s", ("#UserName", "#Password", "#UserType", "#UserStatus"), rows)


@command(
    "copyUser",
    "Copy user to cluster.",
    required("f", "fromBroker", "the source broker that the users copy from"),
    required("t", "toBroker", "the target broker that the users copy to"),
    Flag("u", "usernames", "the username list of user to copy."),
    since=_SINCE,
)
async def copy_user(call: Call) -> Output:
    """Copy users with the password that the source broker returns, which is not one that can be used to log in."""
    source, target = call["fromBroker"], call["toBroker"]
    wanted = set(filter(None, (call.get("usernames") or "").split(",")))
    for user in await call.admin.users.matching(broker=source):
        if user.username is None or (wanted and user.username not in wanted):
            continue
        name, is_super = user.username, (user.user_type or "").lower() == "super"
        if await call.admin.users.find(name, broker=target) is None:
            await call.admin.users.create(name, user.password or "", is_super=is_super, broker=target)
        else:
            await call.admin.users.update(name, password=user.password, is_super=is_super, broker=target)
        yield Text(f"copy user of {name} from {source} to {target} success.\n", {"copied": name, "to": target})
