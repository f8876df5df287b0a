"""Collect dead letters as a table, and send chosen ones back to their original topics.

What groups have given up (topics %DLQ%...) is kept as Parquet under OUTPUT/letters, each once; run again, it adds what
is new. With --resend those for which --where holds go back to the topics they came from, and that is noted under
OUTPUT/resent: a letter goes back once, unless --again is given. The result says for each group and topic how many there
are, and how many went back.

\b
kerolox pipeline dead-letters --output letters
kerolox pipeline dead-letters --output letters --group billing \\
    --resend --where "tags = 'paid'"
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kerolox.client.names import DLQ_PREFIX
from kerolox.message import names
from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.archive import ArchiveOptions, archive, read_archive
from kerolox.spark.pipelines.building import explained
from kerolox.spark.pipelines.folders import Folders
from kerolox.spark.pipelines.options import Connection, joined, option, pairs_of
from kerolox.spark.pipelines.replay import kept_properties
from kerolox.spark.pipelines.running import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What tells a letter from all others.
_PLACE: Final = ["topic", "brokerName", "queueId", "queueOffset"]
_RESENT_SCHEMA: Final = "topic STRING, brokerName STRING, queueId INT, queueOffset BIGINT"
_ORIGINALS: Final = {"DEAD_LETTER_OF": "group", "ORIGINAL_MSG_ID": "originMessageId"}


@dataclass(frozen=True, kw_only=True)
class DeadLettersOptions(Connection):
    output: str = option(help="The folder, or URL, of the table.")
    group: tuple[str, ...] = option((), help="Only what this group has given up; may be repeated. Without any: all.")
    resend: bool = option(False, help="Send letters back to their original topics.")
    where: str | None = option(None, help="Only those for which this SQL expression holds, such as \"tags = 'paid'\".")
    to: str | None = option(None, help="Another topic for them.")
    again: bool = option(False, help="Also those that went back before.")
    write_options: tuple[str, ...] = option(
        (), help="An option of format rocketmq for what goes back, such as sendTimeout=20s.", flag="--write-option"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs_of(self.write_options, "write-option")
        given = [name for name in ("where", "to", "again") if getattr(self, name)]
        if given and not self.resend:
            raise OptionError(f"{given[0]} has no meaning without resend: give that too, or leave it out")


def dead_letters(spark: "SparkSession", options: DeadLettersOptions, run: Run | None = None) -> "DataFrame":
    """Returns group, originTopic, letters and resent, which is how many of them ever went back."""
    running = run or Run("dead-letters")
    given = ArchiveOptions(
        **options.connection,
        output=f"{options.output}/letters",
        # All are collected: what is chosen today must not be what is missing tomorrow.
        pattern=f"{DLQ_PREFIX}.*",
    )
    archive(spark, given, running)
    running.check()
    letters = read_letters(spark, options.output)
    if options.group:
        letters = letters.where(letters["group"].isin(*options.group))
    if options.resend:
        explained("dead-letters", lambda: _resend(spark, letters, options, running))
    return _summary(letters, _resent(spark, options.output))


def read_letters(spark: "SparkSession", output: str) -> "DataFrame":
    """Returns the table: columns of messages, group, originTopic and originMessageId."""
    from pyspark.sql.functions import coalesce, col, expr

    properties = col("properties")
    topic = coalesce(properties[names.DLQ_ORIGIN_TOPIC], properties[names.RETRY_TOPIC])
    message = coalesce(properties[names.DLQ_ORIGIN_MESSAGE_ID], properties[names.ORIGIN_MESSAGE_ID], col("msgId"))
    return (
        read_archive(spark, f"{output}/letters")
        .withColumn("group", expr(f"substring(topic, {len(DLQ_PREFIX) + 1})"))
        .withColumn("originTopic", topic)
        .withColumn("originMessageId", message)
    )


def _resend(spark: "SparkSession", letters: "DataFrame", options: DeadLettersOptions, run: Run) -> None:
    from pyspark.sql.functions import col, lit

    chosen = letters if options.where is None else letters.where(options.where)
    if not options.again:
        chosen = chosen.join(_resent(spark, options.output), _PLACE, "left_anti")
    if options.to is None:
        chosen = chosen.where("originTopic IS NOT NULL")
    number = len(Folders(spark, options.output).entries(f"{options.output}/resent"))
    messages = chosen.select(
        (col("originTopic") if options.to is None else lit(options.to)).alias("topic"),
        "keys",
        "tags",
        col("properties")[names.SHARDING_KEY].alias("shardingKey"),
        kept_properties(_ORIGINALS).alias("properties"),
        "body",
    )
    # In one partition and under the same id they get the same unique keys again, if this is cut short before the note.
    own = {**options.connecting, "writeId": f"dead-letters/{number}"}
    given = joined(own, pairs_of(options.write_options, "write-option"))
    flow = run.flow("resend")
    flow.rows = run.work(spark, chosen.count)
    if flow.rows == 0:
        return
    run.work(spark, lambda: messages.coalesce(1).write.format("rocketmq").options(**given).mode("append").save())
    noted = chosen.select(*_PLACE).coalesce(1)
    # What is noted is read to find out what was chosen, so it is not written while that is.
    rows = run.work(spark, lambda: spark.createDataFrame(noted.collect(), _RESENT_SCHEMA).coalesce(1))
    run.work(spark, lambda: rows.write.mode("overwrite").parquet(f"{options.output}/resent/resend={number}"))
    flow.batch = 0
    run.tell()


def _resent(spark: "SparkSession", output: str) -> "DataFrame":
    if not Folders(spark, output).entries(f"{output}/resent"):
        return spark.createDataFrame([], _RESENT_SCHEMA)
    return spark.read.schema(_RESENT_SCHEMA).parquet(f"{output}/resent").select(*_PLACE).distinct()


def _summary(letters: "DataFrame", resent: "DataFrame") -> "DataFrame":
    from pyspark.sql.functions import col, count, lit

    marked = letters.join(resent.withColumn("went", lit(1)), _PLACE, "left")
    grouped = marked.groupBy("group", "originTopic").agg(
        count(lit(1)).alias("letters"), count(col("went")).alias("resent")
    )
    return grouped.orderBy("group", "originTopic")
