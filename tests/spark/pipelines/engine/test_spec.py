"""The specification of a pipeline: what it may contain, and which errors are reported."""

from pathlib import Path
from typing import Any

import pytest

from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.engine.spec import Pipeline, Watermark, pipeline_of, read_pipeline

SOURCE: dict[str, Any] = {"topics": ["orders"]}
SINK: dict[str, Any] = {"from": "orders", "topic": "copies"}


def pipeline_with(**changes: Any) -> Pipeline:
    content = {
        "nameServer": "a:1",
        "checkpoint": "state",
        "source": {"orders": SOURCE},
        "sink": {"copies": SINK},
        **changes,
    }
    kept = {key: value for key, value in content.items() if value is not None}
    return pipeline_of(kept, folder=Path("/pipelines"), default_name="orders")


def test_a_file_declares_sources_tables_and_sinks(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(
        """
        nameServer = "a:1"
        checkpoint = "state"
        trigger = "5 seconds"
        spark = { spark.sql.shuffle.partitions = 3 }
        [source.orders]
        topics = ["orders", "returns"]
        options = { startingOffsets = "earliest", maxOffsetsPerTrigger = 10, failOnDataLoss = false }
        [source.customers]
        format = "csv"
        path = "customers.csv"
        stream = false
        schema = "id INT"
        [table.enriched]
        sql = "SELECT * FROM orders JOIN customers USING (id)"
        watermark = { column = "time", delay = "1 minute" }
        [table.scored]
        python = "scores.py:scored"
        [sink.archive]
        from = "scored"
        format = "parquet"
        path = "s3://bucket/archive"
        partitionBy = "day"
        [sink.summary]
        from = "enriched"
        topic = "summary"
        mode = "update"
        """
    )

    found = read_pipeline(file)

    orders, customers = found.sources
    assert (found.name, found.checkpoint, found.trigger) == (
        "shop",
        str(tmp_path / "state"),
        {"processingTime": "5 seconds"},
    )
    assert found.spark == {"spark.sql.shuffle.partitions": "3"}
    assert (orders.format, orders.is_stream) == ("rocketmq", True)
    assert orders.options == {
        "subscribe": "orders,returns",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
        "failOnDataLoss": "false",
        "nameServer": "a:1",
    }
    assert (customers.options, customers.is_stream) == ({"path": str(tmp_path / "customers.csv")}, False)
    assert found.tables[0].watermark == Watermark("time", "1 minute")
    assert found.tables[1].python == f"{tmp_path / 'scores.py'}:scored"
    assert found.sinks[0].options == {"path": "s3://bucket/archive"}
    assert found.sinks[0].partition_by == ("day",)
    assert (found.sinks[1].mode, found.sinks[1].options) == ("update", {"topic": "summary", "nameServer": "a:1"})


def test_variables_are_taken_from_the_arguments_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIND", "noop")
    file = tmp_path / "p.toml"
    file.write_text(
        'checkpoint = "${WHERE:-state}"\n[source.orders]\ntopics = "${TOPIC}"\n'
        '[sink.all]\nfrom = "orders"\nformat = "${KIND}"\noptions = { price = "5 $$" }\n'
    )

    found = read_pipeline(file, name_server="b:2", variables={"TOPIC": "returns"})

    assert found.sources[0].options == {"subscribe": "returns", "startingOffsets": "earliest", "nameServer": "b:2"}
    assert (found.checkpoint, found.sinks[0].format, found.sinks[0].options) == (
        str(tmp_path / "state"),
        "noop",
        {"price": "5 $"},
    )
    with pytest.raises(OptionError, match="variable TOPIC is not set: give --set TOPIC=VALUE"):
        read_pipeline(file)


@pytest.mark.parametrize(
    ("source", "start"),
    [
        ({}, {"startingOffsets": "earliest"}),
        ({"format": "rocketmq"}, {"startingOffsets": "earliest"}),
        ({"stream": False}, {}),
        ({"options": {"startingoffsets": "latest"}}, {"startingoffsets": "latest"}),
        ({"options": {"startingGroup": "billing"}}, {"startingGroup": "billing"}),
        ({"options": {"startingTimestamp": 5}}, {"startingTimestamp": "5"}),
    ],
)
def test_topics_are_read_from_the_earliest_offset_by_default(source: dict[str, Any], start: dict[str, str]) -> None:
    found = pipeline_with(source={"orders": {**SOURCE, **source}})

    assert found.sources[0].options == {"subscribe": "orders", "nameServer": "a:1", **start}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"triger": "1 second"}, "triger is unknown in the file: is trigger meant?"),
        ({"trigger": "often"}, "trigger is 'often': give availableNow, or an interval"),
        ({"name": "a/b"}, "name is 'a/b': use letters"),
        ({"checkpoint": None}, "checkpoint is missing: name a folder"),
        ({"checkpoint": 5}, "checkpoint is 5: give a non-empty string"),
        ({"nameServer": None}, "source.orders: nameServer is missing: give it at the top of the file, or with -n"),
        ({"source": {}}, "there is no source: add a section"),
        ({"sink": {}}, "there is no sink: add a section"),
        ({"source": {"orders": {**SOURCE, "topic": "x"}}}, "source.orders.topic is unknown in .*: is topics meant?"),
        ({"source": {"orders": {**SOURCE, "pattern": "o.*"}}}, "topics and pattern contradict each other"),
        ({"source": {"orders": {**SOURCE, "format": "csv"}}}, "topics are of format rocketmq, not csv"),
        ({"source": {"orders": {}}}, "source.orders: there is nothing to read: give topics, or format and path"),
        ({"source": {"or-ders": SOURCE}}, "source 'or-ders' is not a table name in SQL"),
        ({"source": {"orders": {**SOURCE, "stream": "no"}}}, "source.orders.stream is 'no': give true or false"),
        ({"source": {"orders": {**SOURCE, "watermark": {"column": "a"}}}}, "delay is missing: both are needed"),
        ({"table": {"a": {}}}, "table.a: sql or python is missing"),
        ({"table": {"a": {"sql": "x", "python": "f.py:g"}}}, "table.a: sql and python contradict each other"),
        ({"table": {"a": {"python": "f.py"}}}, "table.a.python is 'f.py': give file.py:function"),
        ({"table": {"Orders": {"sql": "x"}}}, "table Orders is declared twice"),
        ({"sink": {"s": {"topic": "t"}}}, "sink.s.from is missing"),
        ({"sink": {"s": {"from": "order", "topic": "t"}}}, "sink.s.from is 'order', which is not a table: .* orders"),
        ({"sink": {"s": {"from": "orders"}}}, "sink.s: there is no destination: give topic, or format and path"),
        ({"sink": {"s": {**SINK, "format": "csv"}}}, "a topic is of format rocketmq, not csv"),
        ({"sink": {"s": {**SINK, "path": "x"}}}, "topic and path contradict each other"),
        ({"sink": {"s": {**SINK, "mode": "all"}}}, "sink.s.mode is 'all': give one of append"),
        ({"sink": {"s": {**SINK, "options": {"a": [1]}}}}, r"sink.s.options.a is \[1\]: give a string"),
        (
            {"sink": {"s": {"from": "orders", "format": "csv", "path": "x", "options": {"path": "y"}}}},
            "path is given twice",
        ),
        ({"sink": 5}, "sink is 5: give a section"),
    ],
)
def test_an_invalid_key_is_reported_with_the_remedy(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        pipeline_with(**changes)


def test_a_missing_or_malformed_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    with pytest.raises(OptionError, match="cannot be read"):
        read_pipeline(file)
    file.write_text("name = \n")
    with pytest.raises(OptionError, match="is not TOML"):
        read_pipeline(file)
