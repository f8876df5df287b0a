"""Settings and the KV config."""

import pytest

from kerolox.admin import AdminClient
from kerolox.errors import NoPermission
from kerolox.testing import Cluster


async def test_broker_settings_are_read_and_changed(admin: AdminClient, cluster: Cluster) -> None:
    before = await admin.configuration.broker("broker-a")
    assert (before["brokerName"], before["brokerClusterName"]) == ("broker-a", "DefaultCluster")

    assert await admin.configuration.update_broker({"fileReservedTime": "7"}) == ["broker-a"]

    assert (await admin.configuration.broker(cluster.brokers[0].address))["fileReservedTime"] == "7"


async def test_a_path_cannot_be_changed_remotely(admin: AdminClient) -> None:
    with pytest.raises(NoPermission):
        await admin.configuration.update_broker({"storePathRootDir": "elsewhere"}, broker="broker-a")


async def test_name_server_settings_are_read_and_changed(admin: AdminClient, cluster: Cluster) -> None:
    assert list(await admin.configuration.name_servers()) == [cluster.namesrv_addr]

    await admin.configuration.update_name_servers({"orderMessageEnable": "true"})

    assert (await admin.configuration.name_servers())[cluster.namesrv_addr]["orderMessageEnable"] == "true"


async def test_kv_config_values_are_set_read_and_deleted(admin: AdminClient) -> None:
    assert await admin.configuration.kv("colors", "sky") is None
    assert await admin.configuration.kv_table("colors") == {}

    await admin.configuration.set_kv("colors", "sky", "blue")
    await admin.configuration.set_kv("colors", "grass", "green")

    assert await admin.configuration.kv("colors", "sky") == "blue"
    assert await admin.configuration.kv_table("colors") == {"sky": "blue", "grass": "green"}
    await admin.configuration.delete_kv("colors", "sky")
    assert await admin.configuration.kv_table("colors") == {"grass": "green"}
