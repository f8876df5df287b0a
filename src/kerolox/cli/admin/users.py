"""Users of brokers of 5.3 and later."""

from collections.abc import Iterable

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, needed
from kerolox.cli.admin.errors import Misused, NotDone
from kerolox.cli.admin.finding import everybody, masters
from kerolox.cli.admin.parts import Table, Text
from kerolox.cli.admin.topics import where
from kerolox.wire.bodies.auth import UserInfo

_SINCE = "5.3.0"
_STATES = {"enable": True, "disable": False}
_TYPES = {"super": True, "normal": False}


def _is_super(call: Call) -> bool | None:
    """Of a type that it does not know a broker makes what it likes."""
    text = call.get("userType")
    if text is not None and text.lower() not in _TYPES:
        raise Misused(f"--userType {text!r}: Super and Normal are known")
    return None if text is None else _TYPES[text.lower()]


@command(
    "createUser",
    "Create user to cluster.",
    *where("create user to which"),
    needed("u", "username", "the username of user to create."),
    needed("p", "password", "the password of user to create"),
    Flag("t", "userType", "the userType of user to create"),
    since=_SINCE,
)
async def create_user(call: Call) -> Parts:
    name, is_super = call["username"], bool(_is_super(call))
    for address in await everybody(call):
        await call.admin.users.create(name, call["password"], is_super=is_super, broker=address)
        yield Text(f"create user to {address} success.\n", {"broker": address, "username": name})


@command(
    "updateUser",
    "Update user to cluster.",
    *where("update user to which"),
    needed("u", "username", "the username of user to update."),
    Flag("p", "password", "the password of user to update"),
    Flag("t", "userType", "the userType of user to update"),
    Flag("s", "userStatus", "the userStatus of user to update"),
    since=_SINCE,
)
async def update_user(call: Call) -> Parts:
    state = call.get("userStatus")
    if state is not None and state not in _STATES:
        raise Misused(f"--userStatus {state!r}: enable and disable are known")
    if not any(call.has(name) for name in ("password", "userType", "userStatus")):
        raise Misused("give one of -p (--password), -t (--userType), -s (--userStatus)")
    is_super = _is_super(call)
    for address in await everybody(call):
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
    *where("delete user from which"),
    needed("u", "username", "the username of user to delete."),
    warning="delete user {username} with all that it may do",
    since=_SINCE,
)
async def delete_user(call: Call) -> Parts:
    addresses = await everybody(call)
    # Java says that it has deleted who never was there.
    if not call.is_java and not any(
        [await call.admin.users.find(call["username"], broker=address) for address in addresses]
    ):
        raise _not_there(call)
    for address in addresses:
        await call.admin.users.delete(call["username"], broker=address)
        yield Text(f"delete user to {address} success.\n", {"broker": address, "deleted": call["username"]})


@command(
    "getUser",
    "Get user from cluster.",
    Flag("b", "brokerAddr", "get user for which broker", is_choice=True),
    Flag("c", "clusterName", "get user for specified cluster", is_choice=True),
    needed("u", "username", "the username of user to get"),
    since=_SINCE,
)
async def get_user(call: Call) -> Parts:
    for address in await masters(call):
        user = await call.admin.users.find(call["username"], broker=address)
        if user is not None:
            yield _users([user])
            return
    # Java says nothing of a user whom nobody knows.
    if not call.is_java:
        raise _not_there(call)


def _not_there(call: Call) -> NotDone:
    return NotDone(f"there is no user {call['username']!r}; `kerolox admin listUser` says which there are")


@command(
    "listUser",
    "List user from cluster.",
    Flag("b", "brokerAddr", "list user for which broker", is_choice=True),
    Flag("c", "clusterName", "list user for specified cluster", is_choice=True),
    Flag("f", "filter", "the filter to list users"),
    since=_SINCE,
)
async def list_user(call: Call) -> Parts:
    for address in await masters(call):
        users = await call.admin.users.matching(call.get("filter"), broker=address)
        if users:
            yield _users(users)
            if call.has("clusterName"):
                yield Text(f"get user from {address} success.\n")
            return


def _users(users: Iterable[UserInfo]) -> Table:
    rows = [(it.username, java.text(it.password), java.text(it.user_type), java.text(it.user_status)) for it in users]
    return Table("%-16s  %-22s  %-22s  %-22s", ("#UserName", "#Password", "#UserType", "#UserStatus"), rows)


@command(
    "copyUser",
    "Copy user to cluster.",
    needed("f", "fromBroker", "the source broker that the users copy from"),
    needed("t", "toBroker", "the target broker that the users copy to"),
    Flag("u", "usernames", "the username list of user to copy."),
    since=_SINCE,
)
async def copy_user(call: Call) -> Parts:
    """A broker gives no password away that could be used: who is not there yet is made with what it gives."""
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
