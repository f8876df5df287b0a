"""Dead letters become a table, and selected ones are sent back once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerolox.client import Consumed, ConsumeFrom, Received
from kerolox.client.sync import PushConsumer
from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.dead_letters import DeadLettersOptions, dead_letters, read_letters
from tests.spark.clusters import Brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_dead_letters(cluster: Brokers, topic: str, group: str, count: int) -> None:
    """Consume all messages of a topic so that they become dead letters of the group."""
    rejected = threading.Semaphore(0)

    def handle(messages: list[Received]) -> Consumed:
        rejected.release(len(messages))
        return Consumed.later(delay_level=-1)

    with PushConsumer(
        group,
        topics=topic,
        handler=handle,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        namesrv_addr=cluster.namesrv_addr,
    ):
        for _ in range(count):
            assert rejected.acquire(timeout=60)


def test_letters_are_collected_once_and_selected_ones_are_sent_back_once(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path
) -> None:
    group = f"{topic}-group"
    cluster.send(topic, b"1", b"2", tag="paid", keys=["k"], properties={"a": "b"})
    cluster.send(topic, b"3", tag="open")
    make_dead_letters(cluster, topic, group, 3)
    output = str(tmp_path / "letters")

    def run(**more: object) -> list[tuple[object, ...]]:
        options = DeadLettersOptions(
            name_server=cluster.namesrv_addr,
            output=output,
            group=(group,),
            **more,  # type: ignore[arg-type]
        )
        return [tuple(row) for row in dead_letters(spark, options).collect()]

    assert run() == [(group, topic, 3, 0)]
    assert run(resend=True, where="tags = 'paid'") == [(group, topic, 3, 2)]
    assert run(resend=True, where="tags = 'paid'") == [(group, topic, 3, 2)]
    assert run(resend=True, where="body = X'31'", again=True) == [(group, topic, 3, 2)]

    letters = read_letters(spark, output).where(f"group = '{group}'").collect()
    assert sorted((bytes(row.body), row.tags, row.originTopic) for row in letters) == [
        (b"1", "paid", topic),
        (b"2", "paid", topic),
        (b"3", "open", topic),
    ]
    read = spark.read.format("rocketmq").options(
        nameServer=cluster.namesrv_addr, subscribe=topic, includeProperties="true"
    )
    back = [row for row in read.load().collect() if row.properties.get("DEAD_LETTER_OF")]
    assert sorted(bytes(row.body) for row in back) == [b"1", b"1", b"2"]
    assert {(row["keys"], row.tags, row.properties["a"], row.properties["DEAD_LETTER_OF"]) for row in back} == {
        ("k", "paid", "b", group)
    }
    assert {row.properties["ORIGINAL_MSG_ID"] for row in back} <= {row.originMessageId for row in letters}


def test_without_dead_letters_the_result_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    with Brokers(tmp_path / "cluster") as empty:
        options = DeadLettersOptions(name_server=empty.namesrv_addr, output=str(tmp_path / "out"), resend=True)

        assert dead_letters(spark, options).collect() == []


def test_options_for_resending_need_resend() -> None:
    with pytest.raises(OptionError, match="where has no meaning without resend: give that too"):
        DeadLettersOptions(output="x", where="true")
