"""Users and policies, with a broker that keeps them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.errors import RequestCodeNotSupported
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime import fastjson
from kerolox.wire.bodies.auth import AclInfo, PolicyEntry, UserInfo
from kerolox.wire.header import Empty
from kerolox.wire.headers import auth as a
from kerolox.wire.reply import Reply
from tests.client.brokers import staged
from tests.remoting.support import serving

ENTRY = PolicyEntry(resource="Topic:orders", actions=["Pub"], decision="Allow")


class Accounts:
    """Keeps what it is told, as bytes."""

    def __init__(self) -> None:
        self.users: dict[str, bytes] = {}
        self.acls: dict[str, bytes] = {}
        self.filters: list[str | None] = []

    @handles(a.CreateUser)
    def create_user(self, request: Incoming[a.CreateUser]) -> Reply[Empty]:
        self.users[request.header.username] = request.body
        return Reply()

    @handles(a.UpdateUser)
    def update_user(self, request: Incoming[a.UpdateUser]) -> Reply[Empty]:
        self.users[request.header.username] = request.body
        return Reply()

    @handles(a.DeleteUser)
    def delete_user(self, request: Incoming[a.DeleteUser]) -> Reply[Empty]:
        del self.users[request.header.username]
        return Reply()

    @handles(a.GetUser)
    def get_user(self, request: Incoming[a.GetUser]) -> Reply[Empty]:
        return Reply(None, self.users.get(request.header.username, b""))

    @handles(a.ListUsers)
    def list_users(self, request: Incoming[a.ListUsers]) -> Reply[Empty]:
        self.filters.append(request.header.filter)
        return Reply(None, b"[" + b",".join(self.users.values()) + b"]" if self.users else b"")

    @handles(a.CreateAcl)
    def create_acl(self, request: Incoming[a.CreateAcl]) -> Reply[Empty]:
        self.acls[request.header.subject] = request.body
        return Reply()

    @handles(a.UpdateAcl)
    def update_acl(self, request: Incoming[a.UpdateAcl]) -> Reply[Empty]:
        self.acls[request.header.subject] = request.body
        return Reply()

    @handles(a.DeleteAcl)
    def delete_acl(self, request: Incoming[a.DeleteAcl]) -> Reply[Empty]:
        self.filters.append(request.header.resource)
        del self.acls[request.header.subject]
        return Reply()

    @handles(a.GetAcl)
    def get_acl(self, request: Incoming[a.GetAcl]) -> Reply[Empty]:
        return Reply(None, self.acls.get(request.header.subject, b""))

    @handles(a.ListAcls)
    def list_acls(self, request: Incoming[a.ListAcls]) -> Reply[Empty]:
        self.filters += [request.header.subject_filter, request.header.resource_filter]
        return Reply(None, b"[" + b",".join(self.acls.values()) + b"]" if self.acls else b"")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[tuple[AdminClient, list[Accounts]]]:
    """An admin client, and the two brokers of its cluster."""
    one, other = Accounts(), Accounts()
    async with staged(tmp_path) as stage, serving(one) as first, serving(other) as second:
        await stage.list_broker("broker-a", first.address)
        await stage.list_broker("broker-b", second.address)
        async with AdminClient(namesrv_addr=stage.namesrv_addr) as admin:
            yield admin, [one, other]


async def test_all_brokers_of_a_cluster_know_a_user(stage: tuple[AdminClient, list[Accounts]]) -> None:
    admin, brokers = stage
    assert await admin.users.create("alice", "secret", is_super=True) == ["broker-a", "broker-b"]

    for broker in brokers:
        assert UserInfo.decode(broker.users["alice"]) == UserInfo(
            username="alice", password="secret", user_type="Super"
        )
    found = await admin.users.find("alice")
    assert found is not None
    assert found.user_type == "Super"
    assert [user.username for user in await admin.users.matching("ali")] == ["alice"]
    assert await admin.users.find("bob") is None


async def test_a_change_carries_what_changes(stage: tuple[AdminClient, list[Accounts]]) -> None:
    admin, brokers = stage

    assert await admin.users.update("alice", is_enabled=False, broker="broker-b") == ["broker-b"]

    assert fastjson.decode(brokers[1].users["alice"], dict[str, str]) == {"username": "alice", "userStatus": "disable"}
    assert brokers[0].users == {}
    await admin.users.delete("alice", broker="broker-b")
    assert await admin.users.matching(broker="broker-b") == []
    assert brokers[1].filters == [None]


async def test_policies_are_kept_by_subject(stage: tuple[AdminClient, list[Accounts]]) -> None:
    admin, brokers = stage
    assert await admin.policies.create("User:alice", [ENTRY]) == ["broker-a", "broker-b"]

    acl = await admin.policies.find("User:alice")
    assert isinstance(acl, AclInfo)
    assert (acl.subject, acl.policies[0].policy_type, acl.policies[0].entries) == ("User:alice", "Custom", [ENTRY])
    assert [acl.subject for acl in await admin.policies.matching("ali", "Topic", broker="broker-a")] == ["User:alice"]
    assert brokers[0].filters == ["ali", "Topic"]
    await admin.policies.update("User:alice", [ENTRY, ENTRY])
    await admin.policies.delete("User:alice", resource="Topic:orders", broker="broker-a")
    assert brokers[0].filters[-1] == "Topic:orders"
    assert await admin.policies.find("User:alice", broker="broker-a") is None
    assert len(AclInfo.decode(brokers[1].acls["User:alice"]).policies[0].entries) == 2


async def test_a_broker_without_users_says_so(admin: AdminClient) -> None:
    with pytest.raises(RequestCodeNotSupported):
        await admin.users.matching()
