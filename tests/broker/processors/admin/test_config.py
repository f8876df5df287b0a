"""Remote configuration: few settings are changeable, and never a path or a command."""

from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig, Settings
from kerolox.errors import NoPermission, SystemFailure
from kerolox.runtime.text import properties
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.headers.broker import GetBrokerConfig, UpdateBrokerConfig
from tests.broker.brokers import BrokerFixture, running
from tests.broker.name_servers import FakeNameServer, until


async def shown(broker: BrokerFixture) -> dict[str, str]:
    return properties.parse((await broker.call(GetBrokerConfig())).body.decode())


async def change(broker: BrokerFixture, text: str) -> None:
    await broker.call(UpdateBrokerConfig(), text.encode())


async def test_settings_are_returned_sorted_and_without_passwords(tmp_path: Path) -> None:
    async with running(tmp_path, **{"tls.server.keyPassword": "x", "accessSecret": "y", "userKey": "kept"}) as broker:
        body = (await broker.call(GetBrokerConfig())).body.decode()

    found = properties.parse(body)
    assert body.splitlines() == sorted(body.splitlines(), key=lambda line: line.partition("=")[0])
    hidden = {"tls.server.keyPassword", "accessSecret"}
    # Keys that mqadmin's exportConfigs and exportMetrics require; they are constant.
    facts = {"clientCallbackExecutorThreads", "filterServerNums", "useTLS"}
    assert set(found) == {*Settings().to_properties(), "userKey", *facts} - hidden
    assert (found["brokerRole"], found["useTLS"]) == ("ASYNC_MASTER", "false")
    assert (found["brokerName"], found["storePathRootDir"], found["connectTimeoutMillis"]) == (
        "broker-a",
        str(tmp_path),
        "3000",
    )


async def test_the_version_grows_with_every_change(broker: BrokerFixture) -> None:
    async def counter() -> int:
        return DataVersion.decode((await broker.call(GetBrokerConfig())).fields.version.encode()).counter

    assert await counter() == 0
    await change(broker, "traceOn=false")
    assert await counter() == 1


async def test_a_change_takes_effect_at_once_and_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "conf" / "broker.conf"
    async with running(tmp_path / "store", brokerConfigPath=str(file), userKey="kept") as broker:
        await change(broker, "traceOn=false\nfileReservedTime=48\nflushDelayOffsetInterval=500\nnobodyKnows=this")

        assert (await shown(broker))["fileReservedTime"] == "48"
        assert not broker.broker.settings.broker.trace_on
        assert broker.broker.store.config.flush_delay_offset_interval == 500

    written = properties.parse(file.read_text())
    assert (written["traceOn"], written["fileReservedTime"], written["userKey"]) == ("false", "48", "kept")
    assert "nobodyKnows" not in written


@pytest.mark.parametrize("key", ["configBlackList", "brokerConfigPath", "rocketmqHome"])
async def test_blacklisted_keys_are_refused_with_the_remark_of_java(broker: BrokerFixture, key: str) -> None:
    with pytest.raises(NoPermission, match="Can not update config in black list"):
        await change(broker, f"{key}=x")


@pytest.mark.parametrize("key", ["storePathRootDir", "listenPort", "brokerName", "bindAddress", "brokerIP1"])
async def test_keys_that_are_not_changeable_are_refused(broker: BrokerFixture, key: str) -> None:
    with pytest.raises(NoPermission, match="cannot be changed while running"):
        await change(broker, f"{key}=1")


@pytest.mark.parametrize(
    "bad", ["fileReservedTime=soon", "brokerPermission=99", "namesrvAddr=nowhere", "namesrvAddr=", "namesrvAddr=;"]
)
async def test_an_invalid_value_changes_nothing(broker: BrokerFixture, bad: str) -> None:
    before = await shown(broker)

    with pytest.raises(SystemFailure):
        await change(broker, f"traceOn=false\n{bad}")

    assert await shown(broker) == before


async def test_without_a_configuration_file_a_change_lasts_until_the_broker_stops(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    await change(broker, "traceOn=false")

    assert (await shown(broker))["traceOn"] == "false"
    assert "the change is lost at the next start" in caplog.text


async def test_a_configuration_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").mkdir()
    async with running(tmp_path / "store", brokerConfigPath=str(tmp_path / "broker.conf")) as broker:
        with pytest.raises(SystemFailure, match="changed, but not kept over a restart"):
            await change(broker, "traceOn=false")

        assert (await shown(broker))["traceOn"] == "false"


async def test_name_servers_can_be_changed_at_run_time(tmp_path: Path) -> None:
    async with FakeNameServer() as one, FakeNameServer() as two, running(tmp_path, namesrvAddr=one.address) as broker:
        await change(broker, f"namesrvAddr={two.address}")
        await until(lambda: broker.broker.registration.registered == [two.address])

        assert (await shown(broker))["namesrvAddr"] == two.address


async def test_a_changed_permission_is_registered_at_once(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, running(tmp_path, namesrvAddr=namesrv.address) as broker:
        version = namesrv.versions[-1]

        await change(broker, "brokerPermission=4")
        await until(lambda: len(namesrv.bodies) == 2)

        topics = namesrv.bodies[-1].topic_config_serialize_wrapper.topic_config_table
        assert {topic.perm for topic in topics.values()} <= {4, 0}
        assert namesrv.versions[-1] != version


def test_only_numbers_and_booleans_are_changeable() -> None:
    """Attacker have taken over brokers by changing a path, an address or a command."""
    fields = Settings().keys().values()
    changeable = [field for field in fields if field.metadata.get("changeable")]

    assert changeable
    assert all(isinstance(field.default, bool | int) for field in changeable)
    assert not BrokerConfig.keys()["namesrvAddr"].metadata.get("changeable")
