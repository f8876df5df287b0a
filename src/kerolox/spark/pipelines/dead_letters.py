"""Collect dead letters as a table, and send selected ones back to their original topics.

Dead letters (topics %DLQ%...) are stored as Parquet under OUTPUT/letters, each once; run again, it adds new ones. With
--resend those that match --where are sent to their original topics, and recorded under OUTPUT/resent: a letter is sent
back once, unless --again is given. The result has the number of letters, and of those sent back, by group and topic.

\b
kerolox pipeline dead-letters --output letters
kerolox pipeline dead-letters --output letters --group billing \\
    --resend --where "tags = 'paid'"
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kerolox.client.resource_names import DLQ_PREFIX
from kerolox.message import property_names
from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.archive import ArchiveOptions, archive, read_archive
from kerolox.spark.pipelines.engine.build import explain_errors
from kerolox.spark.pipelines.engine.options import PipelineOptions, merged_options, option, parse_pairs
from kerolox.spark.pipelines.engine.paths import Paths
from kerolox.spark.pipelines.engine.runner import Run
from kerolox.spark.pipelines.replay import properties_to_send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The columns that identify a letter.
_MESSAGE_KEY: Final = ["topic", "brokerName", "queueId", "queueOffset"]
_RESENT_SCHEMA: Final = "topic STRING, brokerName STRING, queueId INT, queueOffset BIGINT"
_ORIGINALS: Final = {"DEAD_LETTER_OF": "group", "ORIGINAL_MSG_ID": "originMessageId"}


@dataclass(frozen=True, kw_only=True)
class DeadLettersOptions(PipelineOptions):
    output: str = option(help="Folder or URL of the table.")
    group: tuple[str, ...] = option((), help="Only letters of this group; may be repeated. By default all.")
    resend: bool = option(False, help="Send letters back to their original topics.")
    where: str | None = option(None, help="Only letters that match this SQL expression, such as \"tags = 'paid'\".")
    to: str | None = option(None, help="Topic to send to instead.")
    again: bool = option(False, help="Also letters that were sent back before.")
    write_options: tuple[str, ...] = option(
        (), help="An option of format rocketmq for sending back, such as sendTimeout=20s.", flag="--write-option"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_pairs(self.write_options, "write-option")
        given = [name for name in ("where", "to", "again") if getattr(self, name)]
        if given and not self.resend:
            raise OptionError(f"{given[0]} has no meaning without resend: give that too, or leave it out")


def dead_letters(spark: "SparkSession", options: DeadLettersOptions, run: Run | None = None) -> "DataFrame":
    """Return group, originTopic, letters and resent, the number of letters that were ever sent back."""
    running = run or Run("dead-letters")
    archive_options = ArchiveOptions(
        **options.connection_fields,
        output=f"{options.output}/letters",
        # Collect all groups: the selection may differ in the next run.
        pattern=f"{DLQ_PREFIX}.*",
    )
    archive(spark, archive_options, running)
    running.raise_if_stopped()
    letters = read_letters(spark, options.output)
    if options.group:
        letters = letters.where(letters["group"].isin(*options.group))
    if options.resend:
        explain_errors("dead-letters", lambda: _resend(spark, letters, options, running))
    return _summary(letters, _resent(spark, options.output))


def read_letters(spark: "SparkSession", output: str) -> "DataFrame":
    """Return the table: columns of messages, group, originTopic and originMessageId."""
    from pyspark.sql.functions import coalesce, col, expr

    properties = col("properties")
    topic = coalesce(properties[property_names.DLQ_ORIGIN_TOPIC], properties[property_names.RETRY_TOPIC])
    message = coalesce(
        properties[property_names.DLQ_ORIGIN_MESSAGE_ID], properties[property_names.ORIGIN_MESSAGE_ID], col("msgId")
    )
    return (
        read_archive(spark, f"{output}/letters")
        .withColumn("group", expr(f"substring(topic, {len(DLQ_PREFIX) + 1})"))
        .withColumn("originTopic", topic)
        .withColumn("originMessageId", message)
    )


def _resend(spark: "SparkSession", letters: "DataFrame", options: DeadLettersOptions, run: Run) -> None:
    from pyspark.sql.functions import col, lit

    selected = letters if options.where is None else letters.where(options.where)
    if not options.again:
        selected = selected.join(_resent(spark, options.output), _MESSAGE_KEY, "left_anti")
    if options.to is None:
        selected = selected.where("originTopic IS NOT NULL")
    number = len(Paths(spark, options.output).entries(f"{options.output}/resent"))
    messages = selected.select(
        (col("originTopic") if options.to is None else lit(options.to)).alias("topic"),
        "keys",
        "tags",
        col("properties")[property_names.SHARDING_KEY].alias("shardingKey"),
        properties_to_send(_ORIGINALS).alias("properties"),
        "body",
    )
    # One partition and a fixed id give the same unique keys if the run is interrupted before the letters are recorded.
    own = {**options.connection_options, "writeId": f"dead-letters/{number}"}
    write_options = merged_options(own, parse_pairs(options.write_options, "write-option"))
    flow = run.add_flow("resend")
    flow.rows = run.run_job(spark, selected.count)
    if flow.rows == 0:
        return
    run.run_job(
        spark, lambda: messages.coalesce(1).write.format("rocketmq").options(**write_options).mode("append").save()
    )
    resent = selected.select(*_MESSAGE_KEY).coalesce(1)
    # `selected` reads OUTPUT/resent, so collect it before that is written.
    rows = run.run_job(spark, lambda: spark.createDataFrame(resent.collect(), _RESENT_SCHEMA).coalesce(1))
    run.run_job(spark, lambda: rows.write.mode("overwrite").parquet(f"{options.output}/resent/resend={number}"))
    flow.batch = 0
    run.report()


def _resent(spark: "SparkSession", output: str) -> "DataFrame":
    if not Paths(spark, output).entries(f"{output}/resent"):
        return spark.createDataFrame([], _RESENT_SCHEMA)
    return spark.read.schema(_RESENT_SCHEMA).parquet(f"{output}/resent").select(*_MESSAGE_KEY).distinct()


def _summary(letters: "DataFrame", resent: "DataFrame") -> "DataFrame":
    from pyspark.sql.functions import col, count, lit

    marked = letters.join(resent.withColumn("went", lit(1)), _MESSAGE_KEY, "left")
    grouped = marked.groupBy("group", "originTopic").agg(
        count(lit(1)).alias("letters"), count(col("went")).alias("resent")
    )
    return grouped.orderBy("group", "originTopic")
