"""Configuration over the wire, and attacks on it."""

import asyncio
from pathlib import Path

import pytest

from kerolox.errors import NoPermission, SystemFailure
from kerolox.namesrv import NamesrvConfig
from kerolox.runtime.text import properties
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import NamesrvFixture

GOLDEN = Path(__file__).parents[1] / "golden"


async def get_config(namesrv: NamesrvFixture) -> dict[str, str]:
    return properties.parse((await namesrv.call(h.GetNamesrvConfig())).body.decode())


async def test_all_keys_of_rocketmq_are_returned_sorted(namesrv: NamesrvFixture) -> None:
    body = (await namesrv.call(h.GetNamesrvConfig())).body.decode()
    java = properties.parse((GOLDEN / "namesrv-5.5.0.properties").read_text())

    keys = [line.split("=")[0] for line in body.splitlines()]

    assert keys == sorted(keys)
    assert set(java) <= set(keys)


async def test_a_change_takes_effect_and_is_stored(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    await namesrv.call(h.UpdateNamesrvConfig(), b"orderMessageEnable=true\nscanNotActiveBrokerInterval = 7000\n")

    assert (await get_config(namesrv))["orderMessageEnable"] == "true"
    stored = NamesrvConfig.from_properties(properties.parse(config.config_store_path.read_text()))
    assert (stored.order_message_enable, stored.scan_not_active_broker_interval) == (True, 7000)


async def test_unknown_keys_and_an_empty_body_are_ignored(namesrv: NamesrvFixture) -> None:
    before = await get_config(namesrv)

    await namesrv.call(h.UpdateNamesrvConfig(), b"noSuchKey=1")
    await namesrv.call(h.UpdateNamesrvConfig())

    assert await get_config(namesrv) == before


async def test_an_invalid_value_changes_nothing_and_is_named_in_the_error(namesrv: NamesrvFixture) -> None:
    with pytest.raises(SystemFailure, match="waitSecondsForService='soon' cannot be used"):
        await namesrv.call(h.UpdateNamesrvConfig(), b"orderMessageEnable=true\nwaitSecondsForService=soon")

    assert (await get_config(namesrv))["orderMessageEnable"] == "false"


@pytest.mark.parametrize("key", ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"])
async def test_black_listed_keys_are_refused_with_rocketmqs_remark(namesrv: NamesrvFixture, key: str) -> None:
    with pytest.raises(NoPermission) as refused:
        await namesrv.call(h.UpdateNamesrvConfig(), f"{key}=/tmp/x".encode())

    assert refused.value.remark == "Can not update config in black list."


def test_only_flags_and_numbers_are_changeable() -> None:
    """No text from the network, such as a path or a command, may reach the configuration file."""
    changeable = [field for field in NamesrvConfig.keys().values() if field.metadata.get("changeable")]

    assert changeable
    assert {type(field.default) for field in changeable} == {bool, int}


@pytest.mark.parametrize(
    "payload",
    [
        # CVE-2023-37582: point the configuration file elsewhere, then write into it.
        b"configStorePath=/tmp/pwned\nproductEnvName=123\\ntest",
        b"configStorePath=/tmp/pwned",
        b"productEnvName=* * * * * root touch /tmp/pwned",
        b"kvConfigPath=/etc/cron.d/pwned",
        # CVE-2023-33246: the broker's variant, a command run in a shell.
        b"filterServerNums=1\nrocketmqHome=-c $@|sh . echo touch /tmp/pwned;",
        b"rocketmqHome=/tmp/pwned",
        # Hidden behind a changeable key.
        b"orderMessageEnable=true\nconfigStorePath=/tmp/pwned",
        b"tls.server.keyPath=/etc/shadow",
        b"bindAddress=0.0.0.0",
        b"config\\u0053torePath=/tmp/pwned",
        b"configStorePath\\\n=/tmp/pwned",
    ],
)
async def test_known_attacks_are_refused_without_any_effect(
    namesrv: NamesrvFixture, config: NamesrvConfig, payload: bytes
) -> None:
    before = await get_config(namesrv)

    with pytest.raises(NoPermission):
        await namesrv.call(h.UpdateNamesrvConfig(), payload)

    assert await get_config(namesrv) == before
    assert not config.config_store_path.exists()
    assert not Path("/tmp/pwned").exists()


async def test_text_that_is_not_utf_8_is_refused(namesrv: NamesrvFixture) -> None:
    with pytest.raises(SystemFailure, match="not UTF-8"):
        await namesrv.call(h.UpdateNamesrvConfig(), b"orderMessageEnable=\xff")


async def test_the_password_of_the_tls_key_is_not_returned(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    config.tls_server_key_password = "secret"

    assert b"secret" not in (await namesrv.call(h.GetNamesrvConfig())).body


@pytest.mark.parametrize(
    "line",
    [
        "scanNotActiveBrokerInterval=" + "9" * 400,
        "scanNotActiveBrokerInterval=0",
        "scanNotActiveBrokerInterval=-5",
        "waitSecondsForService=99999999",
    ],
)
async def test_a_number_out_of_range_is_refused(namesrv: NamesrvFixture, line: str) -> None:
    with pytest.raises(SystemFailure, match="expected a number from"):
        await namesrv.call(h.UpdateNamesrvConfig(), line.encode())

    await namesrv.clock.advance(20)
    await namesrv.call(h.GetNamesrvConfig())


async def test_concurrent_changes_are_stored_in_order(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    await asyncio.gather(
        *(namesrv.call(h.UpdateNamesrvConfig(), f"waitSecondsForService={number}".encode()) for number in range(1, 41))
    )

    stored = properties.parse(config.config_store_path.read_text())
    assert stored["waitSecondsForService"] == (await get_config(namesrv))["waitSecondsForService"]


async def test_saving_keeps_the_permissions_of_the_file(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    config.config_store_path.parent.mkdir()
    config.config_store_path.write_text("tls.server.keyPassword=secret\n")
    config.config_store_path.chmod(0o600)

    await namesrv.call(h.UpdateNamesrvConfig(), b"orderMessageEnable=true")

    for path in (config.config_store_path, config.config_store_path.with_name("namesrv.properties.bak")):
        assert path.stat().st_mode & 0o777 == 0o600
