"""Access lists, with a broker that keeps them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.admin import AccountRefused, AdminClient
from kerolox.errors import RequestCodeNotSupported
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.headers import auth as a
from tests.admin.accounts import AccessLists
from tests.client.brokers import staged
from tests.remoting.support import serving


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[tuple[AdminClient, AccessLists]]:
    lists = AccessLists()
    async with staged(tmp_path) as stage, serving(lists) as server:
        await stage.list_broker("broker-a", server.address)
        async with AdminClient(namesrv_addr=stage.namesrv_addr) as admin:
            yield admin, lists


async def test_an_account_is_kept_and_forgotten(stage: tuple[AdminClient, AccessLists]) -> None:
    admin, lists = stage

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


async def test_a_refusal_is_told_by_the_name_that_its_code_has_in_4x(stage: tuple[AdminClient, AccessLists]) -> None:
    """To 5.x the same code is POLLING_TIMEOUT."""
    admin, _ = stage

    with pytest.raises(AccountRefused, match=r"it has been deleted failed \(DELETE_ACL_CONFIG_FAILED, 210\)"):
        await admin.access.delete("broker-a", "nobody")


async def test_white_addresses_are_set_and_versions_told(stage: tuple[AdminClient, AccessLists]) -> None:
    admin, lists = stage

    await admin.access.set_white_addresses("broker-a", ["192.0.2.1", "192.0.2.2"], file="/conf/one.yml")

    assert lists.white == a.UpdateGlobalWhiteAddrsConfig(
        global_white_addrs="192.0.2.1,192.0.2.2", acl_file_full_path="/conf/one.yml"
    )
    assert await admin.access.versions("broker-a") == (
        "DefaultCluster",
        "broker-a",
        {"/conf/plain_acl.yml": DataVersion(counter=3, timestamp=1_700_000_000_000)},
    )


async def test_a_broker_without_lists_says_so(admin: AdminClient) -> None:
    with pytest.raises(RequestCodeNotSupported):
        await admin.access.versions("broker-a")
