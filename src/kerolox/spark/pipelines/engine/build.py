"""Builds and runs the queries of a declared pipeline: a view for each table, a flow for each sink."""

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.engine.runner import Run, activate, error_sentence, spark_errors
from kerolox.spark.pipelines.engine.spec import ROCKETMQ, Pipeline, Sink, Source, Table, Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

R = TypeVar("R")


def run_pipeline(spark: "SparkSession", pipeline: Pipeline, run: Run) -> None:
    """Run a pipeline until all sinks are written, or until it is stopped.

    Batch tables are written first, one after the other; then streams run concurrently.
    """
    activate(spark)
    tables = build(spark, pipeline)
    streams: list[Sink] = []
    batches: list[Sink] = []
    for sink in pipeline.sinks:
        (streams if tables[sink.table.lower()].isStreaming else batches).append(sink)
    for sink in batches:
        _write(spark, tables[sink.table.lower()], sink, run)
        run.raise_if_stopped()
    queries: dict[str, StreamingQuery] = {}
    try:
        for sink in streams:
            queries[sink.name] = _start(tables[sink.table.lower()], sink, pipeline)
    except BaseException:
        for query in queries.values():
            query.stop()
        raise
    if queries:
        run.follow_streams(queries)


def build(spark: "SparkSession", pipeline: Pipeline) -> "dict[str, DataFrame]":
    """Return all tables by lower-case name, and registers them as temporary views."""
    tables: dict[str, DataFrame] = {}

    def add(part: Source | Table, make: "Callable[[], DataFrame]") -> None:
        frame = explain_errors(f"table {part.name}", make)
        if part.watermark is not None:
            frame = explain_errors(f"watermark of {part.name}", lambda: _with_watermark(frame, part.watermark))
        frame.createOrReplaceTempView(part.name)
        tables[part.name.lower()] = frame

    for source in pipeline.sources:
        add(source, lambda source=source: _read(spark, source))  # type: ignore[misc]
    for table in pipeline.tables:
        add(table, lambda table=table: _derived(spark, table, tables))  # type: ignore[misc]
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
    """Check options early, because Spark hides the error if a stream fails to start."""
    from kerolox.spark.options import read_options

    try:
        read_options(source.options, is_stream=source.is_stream)
    except OptionError as error:
        raise OptionError(f"source.{source.name}: {error}") from error


def _derived(spark: "SparkSession", table: Table, tables: "dict[str, DataFrame]") -> "DataFrame":
    if table.sql is not None:
        return spark.sql(table.sql)
    assert table.python is not None
    function = _load_function(table.python, table.name)
    known = {"spark": spark, **tables}
    wanted = list(inspect.signature(function).parameters)
    unknown = [name for name in wanted if name.lower() not in known]
    if unknown:
        raise OptionError(
            f"table {table.name}: its function has a parameter {unknown[0]}, which is not an earlier table: "
            f"there are {', '.join(known)}"
        )
    result = function(**{name: known[name.lower()] for name in wanted})
    if not hasattr(result, "createOrReplaceTempView"):
        raise OptionError(f"table {table.name}: its function returned {result!r}: return a DataFrame")
    frame: DataFrame = result
    return frame


def _load_function(reference: str, table: str) -> Callable[..., Any]:
    path, _, name = reference.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"kerolox_pipeline_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise OptionError(f"table {table}: {path} is not a Python file: give file.py:function")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise OptionError(f"table {table}: {path} cannot be run: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise OptionError(f"table {table}: {path} has no function {name}")
    found: Callable[..., Any] = function
    return found


def _with_watermark(frame: "DataFrame", watermark: Watermark | None) -> "DataFrame":
    assert watermark is not None
    # Spark accepts a watermark on a batch table, too, where it has no effect.
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
    return explain_errors(f"sink {sink.name}", writer.trigger(**pipeline.trigger).start)


def _write(spark: "SparkSession", frame: "DataFrame", sink: Sink, run: Run) -> None:
    if sink.mode not in ("append", "overwrite"):
        raise OptionError(
            f"sink.{sink.name}.mode is {sink.mode}, and {sink.table} is not a stream: give append or overwrite"
        )
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    flow = run.add_flow(sink.name)
    observation = Observation()
    writer = frame.observe(observation, count(lit(1)).alias("rows")).write.format(sink.format).mode(sink.mode)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    run.run_job(spark, lambda: explain_errors(f"sink {sink.name}", writer.options(**sink.options).save))
    flow.rows, flow.batch = observation.get["rows"], 0
    run.report()


def explain_errors(what: str, make: Callable[[], R]) -> R:
    """Return the result of `make`; an error of Spark becomes an OptionError with one sentence that names `what`."""
    try:
        return make()
    except spark_errors() as error:
        raise OptionError(f"{what}: {error_sentence(error)}") from error
