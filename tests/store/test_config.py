"""The store's settings."""

import pytest

from kerolox.errors import ConfigurationError
from kerolox.store.config import Hours, StoreConfig


def test_retention_has_the_keys_and_defaults_of_rocketmq() -> None:
    properties = StoreConfig().to_properties()

    assert {
        "fileReservedTime": "72",
        "deleteWhen": "04",
        "deleteFileBatchMax": "10",
        "deleteCommitLogFilesInterval": "100",
        "cleanResourceInterval": "10000",
        "diskMaxUsedSpaceRatio": "75",
        "diskSpaceCleanForciblyRatio": "85",
        "diskSpaceWarningLevelRatio": "90",
        "cleanFileForciblyEnable": "true",
    }.items() <= properties.items()


@pytest.mark.parametrize(
    ("text", "hours"), [("04", {4}), ("04;16", {4, 16}), ("4;", {4}), ("0;23", {0, 23}), ("", set())]
)
def test_delete_when_is_a_list_of_hours(text: str, hours: set[int]) -> None:
    settings = StoreConfig.from_properties({"deleteWhen": text})

    assert settings.delete_when.numbers == hours
    assert settings.to_properties()["deleteWhen"] == text


@pytest.mark.parametrize("text", ["24", "-1", "four", "04,16", "04;x"])
def test_an_invalid_hour_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Hours(text)
    with pytest.raises(ConfigurationError, match="deleteWhen"):
        StoreConfig.from_properties({"deleteWhen": text})
