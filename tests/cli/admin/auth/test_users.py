"""Users, policies and ACL files, with brokers that have them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.wire.bodies.auth import AclInfo, UserInfo
from tests.admin.accounts import AccessLists, Accounts
from tests.cli.admin.tools import Tool, rows
from tests.client.brokers import scripted_cluster
from tests.remoting.support import serving


class Stage:
    """Two brokers with users, one with ACL files, and the tool."""

    def __init__(self, tool: Tool, one: Accounts, other: Accounts, lists: AccessLists, addresses: list[str]) -> None:
        self.tool, self.one, self.other, self.lists = tool, one, other, lists
        self.first, self.second, self.old = addresses

    async def run(self, *arguments: str) -> str:
        return await asyncio.to_thread(self.tool, *arguments)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    one, other, lists = Accounts(), Accounts(), AccessLists()
    async with (
        scripted_cluster(tmp_path) as servers,
        serving(one) as first,
        serving(other) as second,
        serving(lists) as old,
    ):
        await servers.list_broker("broker-a", first.address)
        await servers.list_broker("broker-b", second.address)
        tool = Tool(servers.namesrv_addr, first.address)
        yield Stage(tool, one, other, lists, [first.address, second.address, old.address])


async def test_a_user_is_created_updated_shown_and_deleted(stage: Stage) -> None:
    made = await stage.run("createUser", "-c", "C", "-u", "alice", "-p", "secret", "-t", "Super")
    shown = await stage.run("getUser", "-c", "C", "-u", "alice")
    listed = await stage.run("listUser", "-c", "C", "-f", "ali")
    changed = await stage.run("updateUser", "-b", stage.first, "-u", "alice", "-s", "disable")
    state = UserInfo.decode(stage.one.users["alice"]).user_status
    deleted = await stage.run("deleteUser", "-c", "C", "-u", "alice")

    assert made == f"create user to {stage.first} success.\ncreate user to {stage.second} success.\n"
    assert rows(shown) == [["alice", "secret", "Super", "null"]]
    assert listed.endswith(f"get user from {stage.first} success.\n")
    assert changed == f"update user to {stage.first} success.\n"
    assert state == "disable"
    assert deleted.startswith(f"delete user to {stage.first} success.\n")
    assert stage.one.users == stage.other.users == {}


async def test_an_update_needs_a_valid_change(stage: Stage) -> None:
    nothing = await asyncio.to_thread(stage.tool.run, "updateUser", "-b", stage.first, "-u", "alice")
    odd = await asyncio.to_thread(stage.tool.run, "updateUser", "-b", stage.first, "-u", "alice", "-s", "asleep")
    odd_type = await asyncio.to_thread(stage.tool.run, "updateUser", "-b", stage.first, "-u", "alice", "-t", "Sper")

    assert "give one of -p" in nothing.stderr
    assert "expected enable or disable" in odd.stderr
    assert "--userType 'Sper': expected Super or Normal" in odd_type.stderr


async def test_an_unknown_user_is_an_error_except_in_mqadmin(stage: Stage) -> None:
    arguments = ("getUser", "-b", stage.first, "-u", "nobody")

    silent = await stage.run(*arguments)
    unknown = await asyncio.to_thread(stage.tool.run, *arguments, is_java=False)
    deleted = await asyncio.to_thread(stage.tool.run, "deleteUser", *arguments[1:], "--yes", is_java=False)

    assert silent == ""
    for result in (unknown, deleted):
        assert (result.exit_code, result.stderr.startswith("Error: unknown user 'nobody'; ")) == (1, True)


@pytest.mark.parametrize(
    ("subject", "resource", "error"),
    [
        ("alice", "Topic:orders", "--subject 'alice': expected a type and a name, such as User:alice"),
        ("User:alice", "Topic:orders,bills", "--resources 'bills': expected a type and a name, such as Topic:orders"),
    ],
)
async def test_names_in_a_policy_need_a_type(stage: Stage, subject: str, resource: str, error: str) -> None:
    policy = ("-s", subject, "-r", resource, "-a", "Pub", "-d", "Allow")

    result = await asyncio.to_thread(stage.tool.run, "createAcl", "-b", stage.first, *policy)

    assert error in result.stderr
    assert stage.one.acls == {}


async def test_users_are_copied(stage: Stage) -> None:
    for name in ("alice", "bob"):
        await stage.run("createUser", "-b", stage.first, "-u", name, "-p", "secret")

    printed = await stage.run("copyUser", "-f", stage.first, "-t", stage.second, "-u", "bob")
    again = await stage.run("copyUser", "-f", stage.first, "-t", stage.second)

    assert printed == f"copy user of bob from {stage.first} to {stage.second} success.\n"
    assert again.count("\n") == 2
    assert stage.other.users.keys() == {"alice", "bob"}


async def test_a_policy_is_created_updated_shown_and_deleted(stage: Stage) -> None:
    policy = ("-s", "User:alice", "-r", "Topic:orders,Topic:bills", "-a", "Pub,Sub", "-d", "Allow")

    made = await stage.run("createAcl", "-b", stage.first, *policy, "-i", "192.0.2.1")
    shown = await stage.run("getAcl", "-b", stage.first, "-s", "User:alice")
    changed = await stage.run("updateAcl", "-b", stage.first, *policy)
    listed = await stage.run("listAcl", "-b", stage.first)
    copied = await stage.run("copyAcl", "-f", stage.first, "-t", stage.second)
    deleted = await stage.run("deleteAcl", "-b", stage.first, "-s", "User:alice", "-r", "Topic:orders")

    assert (made, changed) == (f"create acl to {stage.first} success.\n", f"update acl to {stage.first} success.\n")
    assert rows(shown)[0] == ["User:alice", "Custom", "Topic:orders", "[Pub,", "Sub]", "[192.0.2.1]", "Allow"]
    assert [row[2] for row in rows(listed)] == ["Topic:orders", "Topic:bills"]
    assert rows(listed)[0][5] == "null"
    assert copied == f"copy acl of User:alice from {stage.first} to {stage.second} success.\n"
    assert len(AclInfo.decode(stage.other.acls["User:alice"]).policies[0].entries) == 2
    assert deleted == f"delete acl to {stage.first} success.\n"
    assert stage.one.acls == {}


async def test_acl_files_of_4x_are_changed_and_shown(stage: Stage) -> None:
    made = await stage.run("updateAclConfig", "-b", stage.old, "-a", "alicekey", "-s", "12345678", "-t", "orders=PUB")
    kept = stage.lists.accounts["alicekey"]
    white = await stage.run("updateGlobalWhiteAddr", "-b", stage.old, "-g", "192.0.2.1,192.0.2.2")
    versions = await stage.run("clusterAclConfigVersion", "-b", stage.old)
    deleted = await stage.run("deleteAclConfig", "-b", stage.old, "-a", "alicekey")

    assert made == (f"create or update plain access config to {stage.old} success.\naccount's accesskey is:alicekey")
    assert (kept.secret_key, kept.topic_perms) == ("12345678", "orders=PUB")
    assert white == f"update global white remote addresses to {stage.old} success.\n"
    row, end = versions.splitlines()
    assert row.split()[:5] == ["DefaultCluster", "broker-a", stage.old, "/conf/plain_acl.yml", "3"]
    assert end == "get broker's plain access config version success."
    assert deleted == (f"delete plain access config account from {stage.old} success.\naccount's accesskey is:alicekey")
