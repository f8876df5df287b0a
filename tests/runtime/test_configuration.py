"""Settings under RocketMQ's keys."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.runtime.configuration import Properties, camel, changeable, named


class FlushDiskType(Enum):
    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(slots=True)
class StoreConfig(Properties):
    store_path_root_dir: Path = Path("/store")
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    broker_ip1: str = named("brokerIP1", "127.0.0.1")
    listen_port: int = changeable(9876)
    disk_ratio: float = 0.75
    warm_up: bool = False
    key_path: Path | None = named("tls.keyPath", None)


def test_every_type_is_read_from_its_text() -> None:
    config = StoreConfig.from_properties(
        {
            "storePathRootDir": "/data",
            "flushDiskType": "SYNC_FLUSH",
            "brokerIP1": "10.0.0.1",
            "listenPort": " 10911 ",
            "diskRatio": "0.9",
            "warmUp": "TRUE",
            "tls.keyPath": "/key.pem",
        }
    )

    assert config == StoreConfig(
        Path("/data"), FlushDiskType.SYNC_FLUSH, "10.0.0.1", 10911, 0.9, True, Path("/key.pem")
    )


def test_what_is_not_given_keeps_its_default() -> None:
    assert StoreConfig.from_properties({}) == StoreConfig()


def test_nothing_at_all_is_none_where_none_is_allowed() -> None:
    assert StoreConfig.from_properties({"tls.keyPath": " "}).key_path is None


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/rocket")

    assert StoreConfig.from_properties({"storePathRootDir": "~/store"}).store_path_root_dir == Path(
        "/home/rocket/store"
    )


def test_keys_nobody_declared_are_kept_and_echoed() -> None:
    config = StoreConfig.from_properties({"somebodyElses": "value", "listenPort": "1"})

    assert config.extra == {"somebodyElses": "value"}
    assert config.to_properties()["somebodyElses"] == "value"


def test_settings_written_and_read_again_are_the_same() -> None:
    config = StoreConfig(
        Path("/data"), FlushDiskType.SYNC_FLUSH, "10.0.0.1", 1, 0.5, True, Path("/key"), extra={"a": "b"}
    )

    assert StoreConfig.from_properties(config.to_properties()) == config
    assert StoreConfig.from_properties(StoreConfig().to_properties()) == StoreConfig()


def test_settings_are_written_in_order_of_their_keys() -> None:
    assert StoreConfig().to_properties() == {
        "brokerIP1": "127.0.0.1",
        "diskRatio": "0.75",
        "flushDiskType": "ASYNC_FLUSH",
        "listenPort": "9876",
        "storePathRootDir": "/store",
        "tls.keyPath": "",
        "warmUp": "false",
    }
    assert list(StoreConfig().to_properties()) == sorted(StoreConfig().to_properties())


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("listenPort", "many", "a value of type int"),
        ("diskRatio", "half", "a value of type float"),
        ("warmUp", "yes", "true or false"),
        ("flushDiskType", "MAYBE", "ASYNC_FLUSH, SYNC_FLUSH"),
    ],
)
def test_a_value_that_cannot_be_used_names_key_value_and_what_was_expected(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        StoreConfig.from_properties({key: value})

    assert str(caught.value) == f"{key}={value!r} cannot be used: expected {expected}"


def test_an_update_takes_all_or_nothing() -> None:
    config = StoreConfig()

    with pytest.raises(ConfigurationError):
        config.update({"brokerIP1": "10.0.0.1", "unknown": "x", "listenPort": "many", "warmUp": "true"})

    assert config == StoreConfig()


def test_what_an_operator_may_change_is_marked() -> None:
    assert [key for key, field in StoreConfig.keys().items() if field.metadata.get("changeable")] == ["listenPort"]


def test_two_configurations_share_nothing() -> None:
    StoreConfig().update({"unknown": "x"})

    assert StoreConfig().extra == {}


@pytest.mark.parametrize(("name", "key"), [("port", "port"), ("listen_port", "listenPort"), ("a_b_c", "aBC")])
def test_keys_are_names_in_camel_case(name: str, key: str) -> None:
    assert camel(name) == key
