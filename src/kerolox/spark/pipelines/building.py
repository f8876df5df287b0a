"""Makes queries of a declared pipeline: a view for each table, a flow for each sink."""

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.declared import ROCKETMQ, Pipeline, Sink, Source, Table, Watermark
from kerolox.spark.pipelines.running import Run, activate, sentence, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

R = TypeVar("R")


def run_pipeline(spark: "SparkSession", pipeline: Pipeline, run: Run) -> None:
    """Returns when all that was there has gone into its sinks, or when told to stop.

    Tables that are no streams are written first, one after the other; streams run side by side.
    """
    activate(spark)
    tables = build(spark, pipeline)
    streams: list[Sink] = []
    batches: list[Sink] = []
    for sink in pipeline.sinks:
        (streams if tables[sink.table.lower()].isStreaming else batches).append(sink)
    for sink in batches:
        _write(spark, tables[sink.table.lower()], sink, run)
        run.check()
    queries: dict[str, StreamingQuery] = {}
    try:
        for sink in streams:
            queries[sink.name] = _start(tables[sink.table.lower()], sink, pipeline)
    except BaseException:
        for query in queries.values():
            query.stop()
        raise
    if queries:
        run.streams(queries)


def build(spark: "SparkSession", pipeline: Pipeline) -> "dict[str, DataFrame]":
    """Returns all tables by their names in lower case, which are views as well."""
    tables: dict[str, DataFrame] = {}

    def add(part: Source | Table, make: "Callable[[], DataFrame]") -> None:
        frame = explained(f"table {part.name}", make)
        if part.watermark is not None:
            frame = explained(f"watermark of {part.name}", lambda: _with_watermark(frame, part.watermark))
        frame.createOrReplaceTempView(part.name)
        tables[part.name.lower()] = frame

    for source in pipeline.sources:
        add(source, lambda source=source: _read(spark, source))  # type: ignore[misc]
    for table in pipeline.tables:
        add(table, lambda table=table: _made(spark, table, tables))  # type: ignore[misc]
    return tables


def _read(spark: "SparkSession", source: Source) -> "DataFrame":
    if source.format == ROCKETMQ:
        _check(source)
    reader: Any = (spark.readStream if source.is_stream else spark.read).format(source.format)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    frame: DataFrame = reader.options(**source.options).load()
    return frame


def _check(source: Source) -> None:
    """OptionError if topics cannot be read with these options: of a stream, Spark tells something else."""
    from kerolox.spark.options import read_options

    try:
        read_options(source.options, is_stream=source.is_stream)
    except OptionError as error:
        raise OptionError(f"source.{source.name}: {error}") from error


def _made(spark: "SparkSession", table: Table, tables: "dict[str, DataFrame]") -> "DataFrame":
    if table.sql is not None:
        return spark.sql(table.sql)
    assert table.python is not None
    function = _function(table.python, table.name)
    known = {"spark": spark, **tables}
    wanted = list(inspect.signature(function).parameters)
    unknown = [name for name in wanted if name.lower() not in known]
    if unknown:
        raise OptionError(
            f"table {table.name}: its function wants {unknown[0]}, which is no table before it: "
            f"there are {', '.join(known)}"
        )
    made = function(**{name: known[name.lower()] for name in wanted})
    if not hasattr(made, "createOrReplaceTempView"):
        raise OptionError(f"table {table.name}: its function gave {made!r}: return a DataFrame")
    frame: DataFrame = made
    return frame


def _function(named: str, table: str) -> Callable[..., Any]:
    path, _, name = named.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"kerolox_pipeline_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise OptionError(f"table {table}: {path} is no file of Python: give file.py:function")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise OptionError(f"table {table}: {path} cannot be run: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise OptionError(f"table {table}: {path} has no function {name}")
    made: Callable[..., Any] = function
    return made


def _with_watermark(frame: "DataFrame", watermark: Watermark | None) -> "DataFrame":
    assert watermark is not None
    # Of a table that is no stream it means nothing, and Spark takes it all the same.
    marked = frame.withWatermark(watermark.column, watermark.delay)
    marked.schema  # noqa: B018  (analysed now, so that an error names this table)
    return marked


def _start(frame: "DataFrame", sink: Sink, pipeline: Pipeline) -> "StreamingQuery":
    if sink.mode == "overwrite":
        raise OptionError(f"sink.{sink.name}.mode is overwrite, and {sink.table} is a stream: give append or complete")
    if pipeline.checkpoint is None:
        raise OptionError(f"checkpoint is missing, and {sink.table} is a stream: name a folder for it")
    writer = frame.writeStream.format(sink.format).outputMode(sink.mode).queryName(f"{pipeline.name}.{sink.name}")
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer = writer.option("checkpointLocation", f"{pipeline.checkpoint}/{sink.name}").options(**sink.options)
    return explained(f"sink {sink.name}", writer.trigger(**pipeline.trigger).start)


def _write(spark: "SparkSession", frame: "DataFrame", sink: Sink, run: Run) -> None:
    if sink.mode not in ("append", "overwrite"):
        raise OptionError(
            f"sink.{sink.name}.mode is {sink.mode}, and {sink.table} is no stream: give append or overwrite"
        )
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    flow = run.flow(sink.name)
    observation = Observation()
    writer = frame.observe(observation, count(lit(1)).alias("rows")).write.format(sink.format).mode(sink.mode)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    run.work(spark, lambda: explained(f"sink {sink.name}", writer.options(**sink.options).save))
    flow.rows, flow.batch = observation.get["rows"], 0
    run.tell()


def explained(what: str, make: Callable[[], R]) -> R:
    """Returns what is made; what Spark has against it is told in one sentence that says what it was."""
    try:
        return make()
    except spark_errors() as error:
        raise OptionError(f"{what}: {sentence(error)}") from error
