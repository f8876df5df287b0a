"""Settings, KV configuration and write permissions of NameServers."""

from kerolox.admin.sync import AdminClient
from tests.cli.admin.tools import Tool


def test_the_settings_of_name_servers_are_printed_and_changed(tool: Tool, client: AdminClient) -> None:
    before = tool("getNamesrvConfig")
    changed = tool("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")

    assert before.startswith(f"============{tool.namesrv_addr}============\n")
    assert f"{'orderMessageEnable':<50}=  false\n" in before
    assert changed == f"update name server config success![{tool.namesrv_addr}]\norderMessageEnable : true\n"
    assert tool.json("getNamesrvConfig")[0]["orderMessageEnable"] == "true"


def test_a_read_only_setting_is_refused(tool: Tool) -> None:
    assert "(NO_PERMISSION, 16)" in tool.fails("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/nowhere")


def test_kv_configuration_is_stored_and_deleted(tool: Tool, client: AdminClient) -> None:
    kept = tool("updateKvConfig", "-s", "shop", "-k", "colour", "-v", "blue")
    value = client.configuration.kv("shop", "colour")
    deleted = tool("deleteKvConfig", "-s", "shop", "-k", "colour")

    assert kept == "create or update kv config to namespace success.\n"
    assert value == "blue"
    assert deleted == "delete kv config from namespace success.\n"
    assert client.configuration.kv("shop", "colour") is None


def test_write_permission_of_a_broker_is_wiped_and_added(tool: Tool, client: AdminClient) -> None:
    client.topics.create("written")

    wiped = tool("wipeWritePerm", "-b", "broker-a")
    while_wiped = client.topics.route("written").data.queue_datas[0].perm
    added = tool("addWritePerm", "-b", "broker-a")

    assert wiped.startswith(f"wipe write perm of broker[broker-a] in name server[{tool.namesrv_addr}] OK, ")
    assert while_wiped == 4
    assert added.startswith(f"add write perm of broker[broker-a] in name server[{tool.namesrv_addr}] OK, ")
    assert client.topics.route("written").data.queue_datas[0].perm == 6
