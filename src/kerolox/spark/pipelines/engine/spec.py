"""The specification of a pipeline in a TOML file: sources, derived tables and sinks; checked before Spark starts."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerolox.spark.option_parser import OptionError, TomlSection
from kerolox.spark.pipelines.engine.options import AVAILABLE_NOW, parse_trigger

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# A table name that needs no quotes in Spark SQL.
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\$")
_HAS_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
ROCKETMQ: Final = "rocketmq"
_MODES: Final = ("append", "update", "complete", "overwrite")


@dataclass(frozen=True)
class Watermark:
    """The event time column, and how late a row may arrive."""

    column: str
    delay: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """An input table."""

    name: str
    format: str
    options: Mapping[str, str]
    is_stream: bool = True
    schema: str | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table derived from others, by SQL or by a function, `file.py:name`."""

    name: str
    sql: str | None = None
    python: str | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True, kw_only=True)
class Sink:
    """An output: the table to write, and where."""

    name: str
    table: str
    format: str
    options: Mapping[str, str]
    mode: str = "append"
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A checked specification. A table may use the tables declared before it."""

    name: str
    folder: Path
    sources: tuple[Source, ...]
    tables: tuple[Table, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str | None = None
    # Keyword arguments of `writeStream.trigger`.
    trigger: Mapping[str, Any] = field(default_factory=lambda: parse_trigger(AVAILABLE_NOW))
    spark: Mapping[str, str] = field(default_factory=dict)


def read_pipeline(
    file: Path, *, name_server: str | None = None, variables: Mapping[str, str] | None = None
) -> Pipeline:
    """Parse and check a file; OptionError names the invalid key and the remedy.

    `${NAME}` in a value is replaced by a variable of `variables`, or else of the environment.
    """
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"pipeline {file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"pipeline {file} is not TOML: {error}") from error
    values = _substituted(content, {**os.environ, **(variables or {})})
    return pipeline_of(values, folder=file.absolute().parent, default_name=file.stem, name_server=name_server)


def pipeline_of(
    content: Mapping[str, Any], *, folder: Path, default_name: str, name_server: str | None = None
) -> Pipeline:
    """Check parsed TOML; relative paths are relative to `folder`."""
    section = TomlSection(content, "the file")
    name = section.text("name") or default_name
    if not _NAME.fullmatch(name):
        raise OptionError(f"name is {name!r}: use letters, digits, '.', '_' and '-' only, at most 100 characters")
    file_name_server = section.text("nameServer")
    trigger = parse_trigger(section.text("trigger") or AVAILABLE_NOW)
    checkpoint = section.text("checkpoint")
    builder = _SpecBuilder(folder, name_server or file_name_server)
    sources = [builder.source(name, part) for name, part in section.sections("source")]
    tables = [builder.table(name, part) for name, part in section.sections("table")]
    sinks = [builder.sink(name, part) for name, part in section.sections("sink")]
    spark = section.spark_options("spark")
    section.end()
    _check(sources, tables, sinks, checkpoint)
    return Pipeline(
        name=name,
        folder=folder,
        sources=tuple(sources),
        tables=tuple(tables),
        sinks=tuple(sinks),
        checkpoint=None if checkpoint is None else builder.path(checkpoint),
        trigger=trigger,
        spark=spark,
    )


def _check(sources: list[Source], tables: list[Table], sinks: list[Sink], checkpoint: str | None) -> None:
    if not sources:
        raise OptionError("there is no source: add a section such as [source.orders] with topics = ['orders']")
    if not sinks:
        raise OptionError("there is no sink: add a section such as [sink.archive] with from, format and path")
    named: set[str] = set()
    for name in (*(source.name for source in sources), *(table.name for table in tables)):
        # Table names are case-insensitive in Spark.
        if name.lower() in named:
            raise OptionError(f"table {name} is declared twice: give one of them another name")
        named.add(name.lower())
    for sink in sinks:
        if sink.table.lower() not in named:
            known = ", ".join(sorted(named))
            raise OptionError(f"sink.{sink.name}.from is {sink.table!r}, which is not a table: there are {known}")
    if checkpoint is None and any(source.is_stream for source in sources):
        raise OptionError("checkpoint is missing: name a folder where the pipeline keeps its progress")


@dataclass(frozen=True)
class _SpecBuilder:
    """Builds sources, tables and sinks, with the defaults they share."""

    folder: Path
    name_server: str | None

    def source(self, name: str, section: TomlSection) -> Source:
        _check_table_name(name, "source")
        topics, pattern, kind = section.strings("topics"), section.text("pattern"), section.text("format")
        if topics and pattern:
            raise OptionError(f"source.{name}: topics and pattern contradict each other: give one of them")
        subscription = {"subscribe": ",".join(topics)} if topics else {"subscribePattern": pattern} if pattern else {}
        if subscription and (kind or ROCKETMQ) != ROCKETMQ:
            raise OptionError(f"source.{name}: topics are of format rocketmq, not {kind}: leave out one of them")
        kind = kind or (ROCKETMQ if subscription else None)
        if kind is None:
            raise OptionError(f"source.{name}: there is nothing to read: give topics, or format and path")
        options = {**section.spark_options("options"), **{key: text for key, text in subscription.items() if text}}
        is_stream = section.flag("stream", default=True)
        if kind == ROCKETMQ and is_stream and not any(key.lower().startswith("starting") for key in options):
            # The default of a stream, latest, would make the first run with trigger availableNow find nothing.
            options["startingOffsets"] = "earliest"
        result = Source(
            name=name,
            format=kind,
            options=self._options(f"source.{name}", kind, options, section.text("path")),
            is_stream=is_stream,
            schema=section.text("schema"),
            watermark=_watermark(section),
        )
        section.end()
        return result

    def table(self, name: str, section: TomlSection) -> Table:
        _check_table_name(name, "table")
        sql, python = section.text("sql"), section.text("python")
        if (sql is None) == (python is None):
            both = "sql and python contradict each other" if sql else "sql or python is missing"
            raise OptionError(f"table.{name}: {both}: give one of them")
        if python is not None:
            path, colon, function = python.rpartition(":")
            if not path or not colon or not function.isidentifier():
                raise OptionError(f"table.{name}.python is {python!r}: give file.py:function")
            python = f"{self.path(path)}:{function}"
        result = Table(name=name, sql=sql, python=python, watermark=_watermark(section))
        section.end()
        return result

    def sink(self, name: str, section: TomlSection) -> Sink:
        if not _NAME.fullmatch(name):
            raise OptionError(f"sink {name!r}: use letters, digits, '.', '_' and '-' only in its name")
        table, topic, kind, path = (section.text(key) for key in ("from", "topic", "format", "path"))
        if table is None:
            raise OptionError(f"sink.{name}.from is missing: name the table that is written")
        if topic and (kind or ROCKETMQ) != ROCKETMQ:
            raise OptionError(f"sink.{name}: a topic is of format rocketmq, not {kind}: leave out one of them")
        if topic and path:
            raise OptionError(f"sink.{name}: topic and path contradict each other: give one of them")
        kind = kind or (ROCKETMQ if topic else None)
        if kind is None:
            raise OptionError(f"sink.{name}: there is no destination: give topic, or format and path")
        mode = section.text("mode") or "append"
        if mode not in _MODES:
            raise OptionError(f"sink.{name}.mode is {mode!r}: give one of {', '.join(_MODES)}")
        options = {**section.spark_options("options"), **({"topic": topic} if topic else {})}
        result = Sink(
            name=name,
            table=table,
            format=kind,
            options=self._options(f"sink.{name}", kind, options, path),
            mode=mode,
            partition_by=tuple(section.strings("partitionBy")),
        )
        section.end()
        return result

    def _options(self, where: str, kind: str, options: dict[str, str], path: str | None) -> dict[str, str]:
        if path is not None:
            if "path" in options:
                raise OptionError(f"{where}: path is given twice: remove it from options")
            options = {**options, "path": self.path(path)}
        lowered = {key.lower() for key in options}
        if kind == ROCKETMQ and not lowered & {"nameserver", "rocketmq.namesrv.addr", "rocketmq.namesrvaddr"}:
            if self.name_server is None:
                raise OptionError(f"{where}: nameServer is missing: give it at the top of the file, or with -n")
            options = {**options, "nameServer": self.name_server}
        return options

    def path(self, text: str) -> str:
        """Return a path that does not depend on the working directory."""
        return text if _HAS_SCHEME.match(text) else str(self.folder / Path(text).expanduser())


def _check_table_name(name: str, section: str) -> None:
    if not _TABLE.fullmatch(name):
        raise OptionError(f"{section} {name!r} is not a table name in SQL: use letters, digits and '_' only")


def _watermark(section: TomlSection) -> Watermark | None:
    part = section.section("watermark")
    if part is None:
        return None
    column, delay = part.text("column"), part.text("delay")
    part.end()
    if column is None or delay is None:
        raise OptionError(f"{part.where}: {'column' if column is None else 'delay'} is missing: both are needed")
    return Watermark(column, delay)


def _substituted(value: Any, variables: Mapping[str, str]) -> Any:
    """Return `value` with variables substituted in all its strings; `$$` is a literal dollar sign."""
    if isinstance(value, dict):
        return {key: _substituted(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [_substituted(part, variables) for part in value]
    return _VARIABLE.sub(_replacement(variables), value) if isinstance(value, str) else value


def _replacement(variables: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    def replace(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name is None:
            return "$"
        text = variables.get(name, default)
        if text is None:
            raise OptionError(f"variable {name} is not set: give --set {name}=VALUE, or write ${{{name}:-default}}")
        return text

    return replace
