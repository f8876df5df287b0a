"""`format("rocketmq-store")`: the messages of a store as a Spark table, without a broker."""

from __future__ import annotations

import asyncio
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import pyspark_rocketmq_store
from kerolox.runtime.clock import ManualClock
from kerolox.spark.option_parser import OptionError
from kerolox.spark.store import source as store_source
from kerolox.spark.store.source import DamagedStore, RocketMQStore, StoreReader
from kerolox.store.config import StoreConfig
from kerolox.store.store import Store
from tests.store.stores import draft, put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = 300
SEGMENT_SIZE = 128 * 1024


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with messages of two topics in several files."""
    path = tmp_path_factory.mktemp("store")
    asyncio.run(fill(path))
    return path


async def fill(path: Path) -> None:
    config = StoreConfig(
        store_path_root_dir=path, mapped_file_size_commit_log=SEGMENT_SIZE, mapped_file_size_consume_queue=20 * 50
    )
    config.max_hash_slot_num, config.max_index_num = 100, 400
    store = Store(config, clock=ManualClock())
    store.recover()
    for number in range(COUNT):
        body = b'{"number": %d, "pad": "%s"}' % (number, b"x" * 900)
        put(store, draft(body, "ab"[number % 2], number // 2 % 2, KEYS=f"k{number}", TAGS="T"))
    await store.close()


def test_spark_discovers_the_store_format() -> None:
    assert pyspark_rocketmq_store.DefaultSource is RocketMQStore
    assert RocketMQStore.name() == "rocketmq-store"


def test_spark_reads_every_message_once(spark: SparkSession, root: Path) -> None:
    """Spark discovers the format, unless an earlier test has registered it."""
    frame = load(spark, root, maxPartitionBytes=60_000, brokerName="broker-a", includeProperties="true")

    rows = frame.select("topic", "brokerName", "queueId", "queueOffset", "keys", "tags", "properties").collect()
    assert sorted((row.topic, row.queueId, row.queueOffset, row.brokerName) for row in rows) == sorted(
        ("ab"[number % 2], number // 2 % 2, number // 4, "broker-a") for number in range(COUNT)
    )
    assert {row["keys"] for row in rows} == {f"k{number}" for number in range(COUNT)}
    assert all(row.properties == {"KEYS": row["keys"], "TAGS": "T"} for row in rows)
    assert frame.rdd.getNumPartitions() > COUNT * 1000 // SEGMENT_SIZE


def test_spark_computes_with_values(spark: SparkSession, root: Path) -> None:
    frame = load(spark, root, topics="a", valueFormat="json", valueSchema="number INT")

    assert frame.selectExpr("count(*)", "sum(value.number)", "count(valueError)").first() == (
        COUNT // 2,
        sum(range(0, COUNT, 2)),
        0,
    )


def test_only_requested_topics_are_read(root: Path) -> None:
    assert {row["topic"] for row in read(root, topics="a, nothing")} == {"a"}
    assert len(read(root, topics="a")) == COUNT // 2
    assert read(root, topics="nothing") == []


def test_only_a_period_is_read(root: Path) -> None:
    """All messages of the store have the same store time."""
    millis = int(read(root)[0]["storeTimestamp"].timestamp() * 1000)

    assert len(read(root, startingTimestamp=str(millis), endingTimestamp=str(millis + 1))) == COUNT
    assert read(root, startingTimestamp=str(millis + 1)) == []
    assert read(root, endingTimestamp=str(millis)) == []
    assert read(root, startingTimestamp="2999-01-01T00:00:00+01:00") == []


def test_small_batches_are_merged(root: Path) -> None:
    reader = reader_of(root, topics="a")

    assert next(len(list(reader.read(partition))) for partition in reader.partitions()) == 1


def test_merging_stops_at_the_size_limit() -> None:
    large = pa.record_batch({"body": [bytes(3_000_000)]})

    assert [batch.num_rows for batch in store_source._merge_small(iter([large] * 5))] == [2, 2, 1]


def test_a_user_schema_selects_columns(root: Path) -> None:
    schema = StructType([StructField("keys", StringType()), StructField("commitLogOffset", LongType())])
    rows = read(root, schema=schema)

    assert list(rows[0]) == ["keys", "commitLogOffset"]
    assert len(rows) == COUNT


def test_damage_fails_with_a_remedy(damaged: Path) -> None:
    with pytest.raises(DamagedStore, match=r"no record from 0 to .* CRC .*; set option onDamage to 'report'"):
        read(damaged)


def test_damage_can_be_skipped(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = read(damaged, onDamage="skip")

    assert len(rows) == COUNT - 1
    assert "damage" not in rows[0]
    assert "no record from 0 to" in caplog.text


def test_damage_can_be_reported_as_rows(damaged: Path) -> None:
    rows = read(damaged, onDamage="report", topics="a")

    (bad,) = [row for row in rows if row["damage"]]
    assert len(rows) == COUNT // 2
    assert (bad["commitLogOffset"], bad["topic"], bad["body"]) == (0, None, None)
    assert bad["damage"].startswith("no record from 0 to ")


def test_a_file_deleted_during_the_read_is_damage(damaged: Path) -> None:
    reader = reader_of(damaged, onDamage="report")
    partitions = reader.partitions()
    (damaged / "commitlog" / f"{0:020d}").unlink()

    rows = [row for batch in reader.read(partitions[0]) for row in batch.to_pylist()]

    assert [row["damage"] for row in rows] == [
        f"no record from 0 to {SEGMENT_SIZE}: it was deleted after the ranges were planned"
    ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": ""}, "option path is empty"),
        ({"onDamage": "ignore"}, "option onDamage is 'ignore': give one of fail, skip, report"),
        ({"startingTimestamp": "soon"}, "option startingTimestamp is 'soon': give milliseconds since 1970, or a time"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "startingTimestamp is later than endingTimestamp"),
        ({"nameServer": "x:1"}, "option nameserver is unknown"),
        ({"maxPartitionBytes": "0"}, "option maxPartitionBytes is '0'"),
        ({"verify": "maybe"}, "option verify is 'maybe': give true or false"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        RocketMQStore({"path": "/data", **options}).schema()

    assert reason in str(raised.value)


def test_option_path_is_required() -> None:
    with pytest.raises(OptionError, match="option path is missing"):
        RocketMQStore({}).schema()


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A copy of the store with a changed body."""
    asyncio.run(fill(tmp_path))
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        os.pwrite(file.fileno(), b"?", 100)
    return tmp_path


def load(spark: SparkSession, root: Path, **options: Any) -> DataFrame:
    return spark.read.format("rocketmq-store").options(**options).load(str(root))


def reader_of(root: Path, schema: StructType | None = None, **options: str) -> StoreReader:
    source = RocketMQStore({"path": str(root), **{name.lower(): value for name, value in options.items()}})
    reader = source.reader(schema or source.schema())
    # Spark pickles the reader before it reads rows.
    copy: StoreReader = pickle.loads(pickle.dumps(reader))
    return copy


def read(root: Path, schema: StructType | None = None, **options: str) -> list[dict[str, Any]]:
    reader = reader_of(root, schema, **options)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
