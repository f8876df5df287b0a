"""Archives are replayed completely, at a rate, and continued after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines import replay as module
from kerolox.spark.pipelines.archive import ArchiveOptions, archive, read_archive
from kerolox.spark.pipelines.engine.runner import Run
from kerolox.spark.pipelines.replay import Replayed, ReplayOptions, replay
from kerolox.spark.repeats import drop_repeats
from tests.spark.clusters import Brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_archive(
    spark: SparkSession, path: Path, hours: int = 3, each: int = 20, *, batch: int = 0, where: str = "true"
) -> None:
    """Write an archive of some hours, or a batch of it, like `archive`."""
    rows = (
        spark.range(hours * each)
        .selectExpr(
            "'broker-a' AS brokerName",
            "CAST(id % 2 AS INT) AS queueId",
            "id AS queueOffset",
            "id AS commitLogOffset",
            "concat('ID', id) AS msgId",
            "'' AS offsetMsgId",
            "concat('key', id) AS keys",
            "if(id % 2 = 0, 'even', 'odd') AS tags",
            f"timestamp_seconds(1769860800 + (id div {each}) * 3600 + id) AS bornTimestamp",
            f"timestamp_seconds(1769860800 + (id div {each}) * 3600 + id) AS storeTimestamp",
            "'127.0.0.1:1' AS bornHost",
            "0 AS reconsumeTimes",
            "map('colour', 'blue', 'KEYS', 'x', 'UNIQ_KEY', 'y', '__SHARDINGKEY', concat('s', id % 3)) AS properties",
            "encode(CAST(id AS STRING), 'utf-8') AS body",
            "'orders' AS topic",
            "DATE'2026-01-31' AS day",
            f"{batch} AS batch",
        )
        .where(where)
    )
    rows.write.mode("append").partitionBy("topic", "day", "batch").parquet(str(path))


def read(spark: SparkSession, cluster: Brokers, topic: str) -> DataFrame:
    options = {"nameServer": cluster.namesrv_addr, "subscribe": topic, "includeProperties": "true"}
    return spark.read.format("rocketmq").options(**options).load()


def options_of(cluster: Brokers, folder: Path, to: str, **more: Any) -> ReplayOptions:
    return ReplayOptions(
        name_server=cluster.namesrv_addr,
        input=str(folder / "archive"),
        checkpoint=str(folder / "replay.json"),
        to=to,
        **more,
    )


def test_messages_are_replayed_completely_and_once(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    write_archive(spark, tmp_path / "archive")
    options = options_of(cluster, tmp_path, topic, rate=100_000.0)

    done = replay(spark, options)
    again = replay(spark, options)

    assert (done, again) == (Replayed(60, 3, 0), Replayed(0, 0, 3))
    rows = {int(row.body): row for row in read(spark, cluster, topic).collect()}
    assert sorted(rows) == list(range(60))
    row = rows[41]
    assert (row["keys"], row.tags, row.properties["colour"]) == ("key41", "odd", "blue")
    assert row.properties["__SHARDINGKEY"] == "s2"
    assert {name: row.properties[name] for name in module.ORIGINALS} == {
        "ORIGINAL_TOPIC": "orders",
        "ORIGINAL_MSG_ID": "ID41",
        "ORIGINAL_BORN_TIMESTAMP": str((1769860800 + 2 * 3600 + 41) * 1000),
        "ORIGINAL_STORE_TIMESTAMP": str((1769860800 + 2 * 3600 + 41) * 1000),
    }


def test_an_interrupted_replay_continues_and_repeats_messages_with_the_same_keys(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails after the second hour was sent and before it is recorded."""
    write_archive(spark, tmp_path / "archive")
    send, sent = module._send, []

    def interrupted(*args: Any) -> None:
        send(*args)
        sent.append(args)
        if len(sent) == 2:
            raise RuntimeError("interrupted")

    monkeypatch.setattr(module, "_send", interrupted)
    with pytest.raises(RuntimeError, match="interrupted"):
        replay(spark, options_of(cluster, tmp_path, topic))
    monkeypatch.undo()

    done = replay(spark, options_of(cluster, tmp_path, topic))

    assert done == Replayed(40, 2, 1)
    messages = read(spark, cluster, topic)
    assert messages.count() == 80
    assert sorted(int(row.body) for row in drop_repeats(messages).collect()) == list(range(60))


def test_new_messages_of_a_completed_hour_are_sent(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive was still growing in the second hour. Repeated messages have the same keys in such hours, too."""
    write_archive(spark, tmp_path / "archive", where="queueOffset < 30")
    options = options_of(cluster, tmp_path, topic)
    assert replay(spark, options) == Replayed(30, 2, 0)
    write_archive(spark, tmp_path / "archive", batch=1, where="queueOffset >= 30")
    send = module._send

    def interrupted(*args: Any) -> None:
        send(*args)
        raise RuntimeError("interrupted")

    monkeypatch.setattr(module, "_send", interrupted)
    with pytest.raises(RuntimeError, match="interrupted"):
        replay(spark, options)
    monkeypatch.undo()

    assert (replay(spark, options), replay(spark, options)) == (Replayed(30, 2, 2), Replayed(0, 0, 3))

    messages = read(spark, cluster, topic)
    assert messages.count() == 70
    assert sorted(int(row.body) for row in drop_repeats(messages).collect()) == list(range(60))


def test_older_messages_archived_after_their_hour_was_sent_are_reported(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    write_archive(spark, tmp_path / "archive", where="queueOffset NOT IN (25, 26)")
    options = options_of(cluster, tmp_path, topic)
    replay(spark, options)
    write_archive(spark, tmp_path / "archive", batch=1, where="queueOffset = 25")

    with pytest.raises(
        OptionError, match=r"has 19 messages of the hour 2026-01-31T13:00:00 .* 18 were sent: .* another"
    ):
        replay(spark, options)


def test_messages_can_be_selected_and_their_order_kept(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    write_archive(spark, tmp_path / "archive")
    options = options_of(
        cluster,
        tmp_path,
        topic,
        topic=("orders",),
        since="2026-01-31T13:00:00",
        until="2026-01-31T14:00:00+00:00",
        where="tags = 'even'",
        ordered=True,
    )

    assert replay(spark, options) == Replayed(10, 1, 0)

    rows = read(spark, cluster, topic).orderBy("queueId", "queueOffset").collect()
    by_key: dict[str, list[int]] = {}
    for row in rows:
        by_key.setdefault(row.properties["__SHARDINGKEY"], []).append(int(row.body))
    assert sorted(number for numbers in by_key.values() for number in numbers) == list(range(20, 40, 2))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_a_stopped_replay_has_recorded_the_completed_hours(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    write_archive(spark, tmp_path / "archive")
    run = Run("replay", show=lambda progress: run.stop.set() if progress.flows and progress.flows[0].rows else None)
    with run:
        replay(spark, options_of(cluster, tmp_path, topic), run)

    assert run.progress.state == "stopped"
    assert len(json.loads((tmp_path / "replay.json").read_text())["hours"]) == 1


def test_a_checkpoint_belongs_to_one_replay(spark: SparkSession, cluster: Brokers, tmp_path: Path) -> None:
    (tmp_path / "replay.json").write_text(
        json.dumps({"id": "x", "partitions": 1, "asked": {"input": str(tmp_path / "archive"), "to": "a"}})
    )

    with pytest.raises(
        OptionError, match=r"to is 'b', and was 'a' when checkpoint .* was created: give the same value"
    ):
        replay(spark, options_of(cluster, tmp_path, "b"))
    (tmp_path / "replay.json").write_text("[]")
    with pytest.raises(OptionError, match="is not one of a replay: give another file"):
        replay(spark, options_of(cluster, tmp_path, "b"))


def test_hours_and_days_are_utc_in_any_session_time_zone(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    sent = cluster.fill(topic, 20)
    path = str(tmp_path / "archive")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        archive(spark, ArchiveOptions(name_server=cluster.namesrv_addr, output=path, topic=(topic,)))
        done = replay(spark, options_of(cluster, tmp_path, f"{topic}-again"))
        stored = read_archive(spark, path).selectExpr("unix_date(day) AS day", "unix_millis(storeTimestamp) AS at")
        days = {(row.day, row.at // 86_400_000) for row in stored.collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert done.rows == len(sent)
    assert all(day == right for day, right in days)


def test_an_archive_keeps_numeric_topic_names_as_strings(spark: SparkSession, tmp_path: Path) -> None:
    write_archive(spark, tmp_path / "archive", hours=1, each=2)
    (tmp_path / "archive" / "topic=orders").rename(tmp_path / "archive" / "topic=007")

    assert {row.topic for row in read_archive(spark, str(tmp_path / "archive")).collect()} == {"007"}
