"""Configuration over the wire, and those who tried to make more of it."""

import asyncio
from pathlib import Path

import pytest

from kerolox.errors import NoPermission, SystemFailure
from kerolox.namesrv import NamesrvConfig
from kerolox.runtime import properties
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import NamesrvFixture

GOLDEN = Path(__file__).parents[1] / "golden"


async def shown(namesrv: NamesrvFixture) -> dict[str, str]:
    return properties.parse((await namesrv.ask(h.GetNamesrvConfig())).body.decode())


async def test_every_key_of_the_original_is_shown_sorted(namesrv: NamesrvFixture) -> None:
    body = (await namesrv.ask(h.GetNamesrvConfig())).body.decode()
    original = properties.parse((GOLDEN / "namesrv-5.5.0.properties").read_text())

    keys = [line.split("=")[0] for line in body.splitlines()]

    assert keys == sorted(keys)
    assert set(original) <= set(keys)


async def test_a_change_is_effective_and_kept(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    await namesrv.ask(h.UpdateNamesrvConfig(), b"orderMessageEnable=true\nscanNotActiveBrokerInterval = 7000\n")

    assert (await shown(namesrv))["orderMessageEnable"] == "true"
    kept = NamesrvConfig.from_properties(properties.parse(config.config_store_path.read_text()))
    assert (kept.order_message_enable, kept.scan_not_active_broker_interval) == (True, 7000)


async def test_unknown_keys_are_ignored_and_an_empty_body_is_fine(namesrv: NamesrvFixture) -> None:
    before = await shown(namesrv)

    await namesrv.ask(h.UpdateNamesrvConfig(), b"noSuchKey=1")
    await namesrv.ask(h.UpdateNamesrvConfig())

    assert await shown(namesrv) == before


async def test_a_bad_value_changes_nothing_and_names_itself(namesrv: NamesrvFixture) -> None:
    with pytest.raises(SystemFailure, match="waitSecondsForService='soon' cannot be used"):
        await namesrv.ask(h.UpdateNamesrvConfig(), b"orderMessageEnable=true\nwaitSecondsForService=soon")

    assert (await shown(namesrv))["orderMessageEnable"] == "false"


@pytest.mark.parametrize("key", ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"])
async def test_black_listed_keys_are_refused_in_the_words_of_the_original(namesrv: NamesrvFixture, key: str) -> None:
    with pytest.raises(NoPermission) as refused:
        await namesrv.ask(h.UpdateNamesrvConfig(), f"{key}=/tmp/x".encode())

    assert refused.value.remark == "Can not update config in black list."


def test_nothing_that_names_a_path_an_address_or_a_command_can_be_changed() -> None:
    """What may change is a flag or a number, so that no text from outside reaches a file."""
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
        # Smuggled behind a key that may change.
        b"orderMessageEnable=true\nconfigStorePath=/tmp/pwned",
        b"tls.server.keyPath=/etc/shadow",
        b"bindAddress=0.0.0.0",
        b"config\\u0053torePath=/tmp/pwned",
        b"configStorePath\\\n=/tmp/pwned",
    ],
)
async def test_an_attack_is_refused_and_leaves_no_trace(
    namesrv: NamesrvFixture, config: NamesrvConfig, payload: bytes
) -> None:
    before = await shown(namesrv)

    with pytest.raises(NoPermission):
        await namesrv.ask(h.UpdateNamesrvConfig(), payload)

    assert await shown(namesrv) == before
    assert not config.config_store_path.exists()
    assert not Path("/tmp/pwned").exists()


async def test_text_that_is_not_utf_8_is_refused(namesrv: NamesrvFixture) -> None:
    with pytest.raises(SystemFailure, match="not UTF-8"):
        await namesrv.ask(h.UpdateNamesrvConfig(), b"orderMessageEnable=\xff")


async def test_the_password_of_the_key_is_not_shown(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    config.tls_server_key_password = "secret"

    assert b"secret" not in (await namesrv.ask(h.GetNamesrvConfig())).body


@pytest.mark.parametrize(
    "line",
    [
        "scanNotActiveBrokerInterval=" + "9" * 400,
        "scanNotActiveBrokerInterval=0",
        "scanNotActiveBrokerInterval=-5",
        "waitSecondsForService=99999999",
    ],
)
async def test_a_number_out_of_its_bounds_is_refused(namesrv: NamesrvFixture, line: str) -> None:
    with pytest.raises(SystemFailure, match="expected a number from"):
        await namesrv.ask(h.UpdateNamesrvConfig(), line.encode())

    await namesrv.clock.advance(20)
    await namesrv.ask(h.GetNamesrvConfig())


async def test_changes_at_once_are_all_kept(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    await asyncio.gather(
        *(namesrv.ask(h.UpdateNamesrvConfig(), f"waitSecondsForService={number}".encode()) for number in range(1, 41))
    )

    kept = properties.parse(config.config_store_path.read_text())
    assert kept["waitSecondsForService"] == (await shown(namesrv))["waitSecondsForService"]


async def test_a_file_with_a_secret_stays_as_private_as_it_was(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    config.config_store_path.parent.mkdir()
    config.config_store_path.write_text("tls.server.keyPassword=secret\n")
    config.config_store_path.chmod(0o600)

    await namesrv.ask(h.UpdateNamesrvConfig(), b"orderMessageEnable=true")

    for path in (config.config_store_path, config.config_store_path.with_name("namesrv.properties.bak")):
        assert path.stat().st_mode & 0o777 == 0o600
