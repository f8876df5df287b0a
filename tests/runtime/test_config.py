"""Settings under RocketMQ's keys."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.runtime.config import Properties, camel, changeable, formerly, named, warn_of_unknown


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


@dataclass(slots=True)
class RenamedConfig(Properties):
    mapped_file_size: int = formerly("mapedFileSize", 1024)


def test_values_of_every_type_are_parsed() -> None:
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


def test_missing_settings_keep_their_defaults() -> None:
    assert StoreConfig.from_properties({}) == StoreConfig()


def test_an_empty_value_is_none_for_an_optional_setting() -> None:
    assert StoreConfig.from_properties({"tls.keyPath": " "}).key_path is None


def test_a_tilde_in_a_path_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/rocket")

    assert StoreConfig.from_properties({"storePathRootDir": "~/store"}).store_path_root_dir == Path(
        "/home/rocket/store"
    )


def test_undeclared_keys_are_kept_and_returned() -> None:
    config = StoreConfig.from_properties({"undeclaredKey": "value", "listenPort": "1"})

    assert config.extra == {"undeclaredKey": "value"}
    assert config.to_properties()["undeclaredKey"] == "value"


def test_an_old_spelling_is_accepted_and_written_as_the_current_one() -> None:
    config = RenamedConfig.from_properties({"mapedFileSize": "7"})

    assert config.mapped_file_size == 7
    assert config.extra == {}
    assert config.to_properties()["mappedFileSize"] == "7"


@pytest.mark.parametrize("keys", [("mapedFileSize", "mappedFileSize"), ("mappedFileSize", "mapedFileSize")])
def test_the_current_spelling_wins_if_both_are_given(keys: tuple[str, str]) -> None:
    sizes = {"mapedFileSize": "7", "mappedFileSize": "8"}

    assert RenamedConfig.from_properties({key: sizes[key] for key in keys}).mapped_file_size == 8


def test_a_value_under_an_old_spelling_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="mappedFileSize='much'"):
        RenamedConfig.from_properties({"mapedFileSize": "much"})


def test_unknown_keys_of_a_file_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_unknown(Path("broker.conf"), {})
    warn_of_unknown(Path("broker.conf"), {"listenPrt": "1", "brokerNam": "a"})

    assert caplog.messages == ["broker.conf: unknown keys have no effect: brokerNam, listenPrt"]


def test_settings_survive_a_round_trip() -> None:
    config = StoreConfig(
        Path("/data"), FlushDiskType.SYNC_FLUSH, "10.0.0.1", 1, 0.5, True, Path("/key"), extra={"a": "b"}
    )

    assert StoreConfig.from_properties(config.to_properties()) == config
    assert StoreConfig.from_properties(StoreConfig().to_properties()) == StoreConfig()


def test_settings_are_sorted_by_key() -> None:
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
def test_the_error_for_an_invalid_value_names_key_value_and_expectation(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        StoreConfig.from_properties({key: value})

    assert str(caught.value) == f"{key}={value!r} cannot be used: expected {expected}"


def test_an_update_applies_all_settings_or_none() -> None:
    config = StoreConfig()

    with pytest.raises(ConfigurationError):
        config.update({"brokerIP1": "10.0.0.1", "unknown": "x", "listenPort": "many", "warmUp": "true"})

    assert config == StoreConfig()


def test_changeable_settings_are_marked() -> None:
    assert [key for key, field in StoreConfig.keys().items() if field.metadata.get("changeable")] == ["listenPort"]


def test_two_configurations_share_no_state() -> None:
    StoreConfig().update({"unknown": "x"})

    assert StoreConfig().extra == {}


@pytest.mark.parametrize(("name", "key"), [("port", "port"), ("listen_port", "listenPort"), ("a_b_c", "aBC")])
def test_keys_are_field_names_in_camel_case(name: str, key: str) -> None:
    assert camel(name) == key
