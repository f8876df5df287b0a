"""Key-value tables on the wire and on the disk."""

import pytest

from kerolox.wire.bodies.kv import KVConfig, KVTable
from tests.golden.recordings import HERE, VERSIONS


def test_a_table_is_written_in_its_own_order() -> None:
    assert KVTable({"b": "1", "a": "€"}).encode() == '{"table":{"b":"1","a":"€"}}'.encode()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_file_that_java_wrote_is_read(version: str) -> None:
    config = KVConfig.decode((HERE / f"namesrv-{version}-kvConfig.json").read_bytes())

    assert config.config_table["ORDER_TOPIC_CONFIG"] == {"TopicTest": "broker-a:4", "Unit": "broker-ü:4;€/<\\\"'>"}
