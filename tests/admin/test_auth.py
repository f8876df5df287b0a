"""Users, policies and access lists."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.admin import AccountRefused, AdminClient
from kerolox.errors import RequestCodeNotSupported
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.auth import AclInfo, PolicyEntry, UserInfo
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.headers import auth as a
from tests.admin.accounts import AccessLists, Accounts
from tests.client.brokers import scripted_cluster
from tests.remoting.support import serving

ENTRY = PolicyEntry(resource="Topic:orders", actions=["Pub"], decision="Allow")


@pytest.fixture
async def with_accounts(tmp_path: Path) -> AsyncIterator[tuple[AdminClient, list[Accounts]]]:
    """An admin client, and the two brokers of its cluster."""
    one, other = Accounts(), Accounts()
    async with scripted_cluster(tmp_path) as scripted, serving(one) as first, serving(other) as second:
        await scripted.list_broker("broker-a", first.address)
        await scripted.list_broker("broker-b", second.address)
        async with AdminClient(namesrv_addr=scripted.namesrv_addr) as admin:
            yield admin, [one, other]


async def test_a_user_is_created_on_all_brokers_of_a_cluster(with_accounts: tuple[AdminClient, list[Accounts]]) -> None:
    admin, brokers = with_accounts
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


async def test_an_update_contains_only_the_changes(with_accounts: tuple[AdminClient, list[Accounts]]) -> None:
    admin, brokers = with_accounts

    assert await admin.users.update("alice", is_enabled=False, broker="broker-b") == ["broker-b"]

    assert fastjson.decode(brokers[1].users["alice"], dict[str, str]) == {"username": "alice", "userStatus": "disable"}
    assert brokers[0].users == {}
    await admin.users.delete("alice", broker="broker-b")
    assert await admin.users.matching(broker="broker-b") == []
    assert brokers[1].filters == [None]


async def test_policies_are_stored_by_subject(with_accounts: tuple[AdminClient, list[Accounts]]) -> None:
    admin, brokers = with_accounts
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


async def test_a_broker_without_users_refuses(admin: AdminClient) -> None:
    with pytest.raises(RequestCodeNotSupported):
        await admin.users.matching()


@pytest.fixture
async def with_access_lists(tmp_path: Path) -> AsyncIterator[tuple[AdminClient, AccessLists]]:
    lists = AccessLists()
    async with scripted_cluster(tmp_path) as scripted, serving(lists) as server:
        await scripted.list_broker("broker-a", server.address)
        async with AdminClient(namesrv_addr=scripted.namesrv_addr) as admin:
            yield admin, lists


async def test_an_account_is_created_and_deleted(with_access_lists: tuple[AdminClient, AccessLists]) -> None:
    admin, lists = with_access_lists

    await admin.access.update(
        "broker-a",
        "alice",
        "12345678",
        is_admin=True,
        default_topic_perm="DENY",
        topic_perms={"orders": "PUB|SUB", "bills": "DENY"},
    )

    assert lists.accounts["alice"] == a.UpdateAndCreateAclConfig(
        access_key="alice",
        secret_key="12345678",
        admin=True,
        default_topic_perm="DENY",
        topic_perms="orders=PUB|SUB,bills=DENY",
    )
    await admin.access.delete("broker-a", "alice")
    assert lists.accounts == {}


async def test_a_refusal_has_the_4x_name_of_its_code(
    with_access_lists: tuple[AdminClient, AccessLists],
) -> None:
    """To 5.x the same code is POLLING_TIMEOUT."""
    admin, _ = with_access_lists

    with pytest.raises(AccountRefused, match=r"it has been deleted failed \(DELETE_ACL_CONFIG_FAILED, 210\)"):
        await admin.access.delete("broker-a", "nobody")


async def test_white_addresses_are_set_and_versions_returned(
    with_access_lists: tuple[AdminClient, AccessLists],
) -> None:
    admin, lists = with_access_lists

    await admin.access.set_white_addresses("broker-a", ["192.0.2.1", "192.0.2.2"], file="/conf/one.yml")

    assert lists.white == a.UpdateGlobalWhiteAddrsConfig(
        global_white_addrs="192.0.2.1,192.0.2.2", acl_file_full_path="/conf/one.yml"
    )
    assert await admin.access.versions("broker-a") == (
        "DefaultCluster",
        "broker-a",
        {"/conf/plain_acl.yml": DataVersion(counter=3, timestamp=1_700_000_000_000)},
    )


async def test_a_broker_without_access_lists_refuses(admin: AdminClient) -> None:
    with pytest.raises(RequestCodeNotSupported):
        await admin.access.versions("broker-a")
