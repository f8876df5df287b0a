"""Users and policies, with a broker that keeps them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.admin import AdminClient
from kerolox.errors import RequestCodeNotSupported
from kerolox.runtime import fastjson
from kerolox.wire.bodies.auth import AclInfo, PolicyEntry, UserInfo
from tests.admin.accounts import Accounts
from tests.client.brokers import staged
from tests.remoting.support import serving

ENTRY = PolicyEntry(resource="Topic:orders", actions=["Pub"], decision="Allow")


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
