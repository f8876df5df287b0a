"""A pipeline as a file declares it: sources, tables made of them, and sinks; checked before Spark is started."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.keys import Keys
from kerolox.spark.pipelines.options import AVAILABLE_NOW, trigger_of

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Spark's names of tables in SQL.
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\$")
_HAS_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
ROCKETMQ: Final = "rocketmq"
_MODES: Final = ("append", "update", "complete", "overwrite")


@dataclass(frozen=True)
class Watermark:
    """How late a row may be, by which column."""

    column: str
    delay: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table that is read."""

    name: str
    format: str
    options: Mapping[str, str]
    is_stream: bool = True
    schema: str | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that is made of others, by SQL or by a function: `file.py:name`."""

    name: str
    sql: str | None = None
    python: str | None = None
    watermark: Watermark | None = None


@dataclass(frozen=True, kw_only=True)
class Sink:
    """Where a table goes."""

    name: str
    table: str
    format: str
    options: Mapping[str, str]
    mode: str = "append"
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """All of it. A table may use those before it."""

    name: str
    folder: Path
    sources: tuple[Source, ...]
    tables: tuple[Table, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str | None = None
    # What `writeStream.trigger` takes.
    trigger: Mapping[str, Any] = field(default_factory=lambda: trigger_of(AVAILABLE_NOW))
    spark: Mapping[str, str] = field(default_factory=dict)


def read_pipeline(
    file: Path, *, name_server: str | None = None, variables: Mapping[str, str] | None = None
) -> Pipeline:
    """Returns what a file says; OptionError names the key that is wrong, and the remedy.

    `${NAME}` in a value stands for a variable given here, or else of the environment.
    """
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"pipeline {file} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"pipeline {file} is not TOML: {error}") from error
    values = _filled(content, {**os.environ, **(variables or {})})
    return pipeline_of(values, folder=file.absolute().parent, default_name=file.stem, name_server=name_server)


def pipeline_of(
    content: Mapping[str, Any], *, folder: Path, default_name: str, name_server: str | None = None
) -> Pipeline:
    """Returns what parsed TOML says; relative paths begin at the folder."""
    keys = Keys(content, "the file")
    name = keys.text("name") or default_name
    if not _NAME.fullmatch(name):
        raise OptionError(f"name is {name!r}: give letters, digits, '.', '_' and '-' only, at most 100")
    server = name_server or keys.text("nameServer")
    keys.text("nameServer")
    trigger = trigger_of(keys.text("trigger") or AVAILABLE_NOW)
    checkpoint = keys.text("checkpoint")
    making = _Making(folder, server)
    sources = [making.source(name, part) for name, part in keys.sections("source")]
    tables = [making.table(name, part) for name, part in keys.sections("table")]
    sinks = [making.sink(name, part) for name, part in keys.sections("sink")]
    spark = keys.texts("spark")
    keys.end()
    _check(sources, tables, sinks, checkpoint)
    return Pipeline(
        name=name,
        folder=folder,
        sources=tuple(sources),
        tables=tuple(tables),
        sinks=tuple(sinks),
        checkpoint=None if checkpoint is None else making.path(checkpoint),
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
        # Spark tells names apart without regard to case.
        if name.lower() in named:
            raise OptionError(f"table {name} is there twice: give one of them another name")
        named.add(name.lower())
    for sink in sinks:
        if sink.table.lower() not in named:
            raise OptionError(f"sink.{sink.name}.from is {sink.table!r}, which is no table: there are {_list(named)}")
    if checkpoint is None and any(source.is_stream for source in sources):
        raise OptionError("checkpoint is missing: name a folder where the pipeline notes how far it is")


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))


@dataclass(frozen=True)
class _Making:
    """Makes the parts; what all of them may leave out is known here."""

    folder: Path
    name_server: str | None

    def source(self, name: str, keys: Keys) -> Source:
        _check_table_name(name, "source")
        topics, pattern, kind = keys.list("topics"), keys.text("pattern"), keys.text("format")
        if topics and pattern:
            raise OptionError(f"source.{name}: topics and pattern contradict each other: give one of them")
        of_topics = {"subscribe": ",".join(topics)} if topics else {"subscribePattern": pattern} if pattern else {}
        if of_topics and (kind or ROCKETMQ) != ROCKETMQ:
            raise OptionError(f"source.{name}: topics are of format rocketmq, not {kind}: leave out one of them")
        kind = kind or (ROCKETMQ if of_topics else None)
        if kind is None:
            raise OptionError(f"source.{name}: what is read is missing: give topics, or format and path")
        options = {**keys.texts("options"), **{key: text for key, text in of_topics.items() if text}}
        is_stream = keys.flag("stream", default=True)
        if kind == ROCKETMQ and is_stream and not any(key.lower().startswith("starting") for key in options):
            # A stream's own default, latest, would have a first run of availableNow find nothing.
            options["startingOffsets"] = "earliest"
        made = Source(
            name=name,
            format=kind,
            options=self._options(f"source.{name}", kind, options, keys.text("path")),
            is_stream=is_stream,
            schema=keys.text("schema"),
            watermark=_watermark(keys),
        )
        keys.end()
        return made

    def table(self, name: str, keys: Keys) -> Table:
        _check_table_name(name, "table")
        sql, python = keys.text("sql"), keys.text("python")
        if (sql is None) == (python is None):
            both = "sql and python contradict each other" if sql else "sql or python is missing"
            raise OptionError(f"table.{name}: {both}: give one of them")
        if python is not None:
            path, colon, function = python.rpartition(":")
            if not path or not colon or not function.isidentifier():
                raise OptionError(f"table.{name}.python is {python!r}: give file.py:function")
            python = f"{self.path(path)}:{function}"
        made = Table(name=name, sql=sql, python=python, watermark=_watermark(keys))
        keys.end()
        return made

    def sink(self, name: str, keys: Keys) -> Sink:
        if not _NAME.fullmatch(name):
            raise OptionError(f"sink {name!r}: give it a name of letters, digits, '.', '_' and '-'")
        table, topic, kind, path = (keys.text(key) for key in ("from", "topic", "format", "path"))
        if table is None:
            raise OptionError(f"sink.{name}.from is missing: name the table that is written")
        if topic and (kind or ROCKETMQ) != ROCKETMQ:
            raise OptionError(f"sink.{name}: a topic is of format rocketmq, not {kind}: leave out one of them")
        if topic and path:
            raise OptionError(f"sink.{name}: topic and path contradict each other: give one of them")
        kind = kind or (ROCKETMQ if topic else None)
        if kind is None:
            raise OptionError(f"sink.{name}: where it goes is missing: give topic, or format and path")
        mode = keys.text("mode") or "append"
        if mode not in _MODES:
            raise OptionError(f"sink.{name}.mode is {mode!r}: give one of {', '.join(_MODES)}")
        options = {**keys.texts("options"), **({"topic": topic} if topic else {})}
        made = Sink(
            name=name,
            table=table,
            format=kind,
            options=self._options(f"sink.{name}", kind, options, path),
            mode=mode,
            partition_by=tuple(keys.list("partitionBy")),
        )
        keys.end()
        return made

    def _options(self, where: str, kind: str, options: dict[str, str], path: str | None) -> dict[str, str]:
        if path is not None:
            if "path" in options:
                raise OptionError(f"{where}: path is there twice: take it out of options")
            options = {**options, "path": self.path(path)}
        lowered = {key.lower() for key in options}
        if kind == ROCKETMQ and not lowered & {"nameserver", "rocketmq.namesrv.addr", "rocketmq.namesrvaddr"}:
            if self.name_server is None:
                raise OptionError(f"{where}: nameServer is missing: give it at the top of the file, or with -n")
            options = {**options, "nameServer": self.name_server}
        return options

    def path(self, text: str) -> str:
        """Returns a path that does not depend on where the command is run."""
        return text if _HAS_SCHEME.match(text) else str(self.folder / Path(text).expanduser())


def _check_table_name(name: str, section: str) -> None:
    if not _TABLE.fullmatch(name):
        raise OptionError(f"{section} {name!r} cannot be named in SQL: give letters, digits and '_' only")


def _watermark(keys: Keys) -> Watermark | None:
    part = keys.section("watermark")
    if part is None:
        return None
    column, delay = part.text("column"), part.text("delay")
    part.end()
    if column is None or delay is None:
        raise OptionError(f"{part.where}: {'column' if column is None else 'delay'} is missing: both are needed")
    return Watermark(column, delay)


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """Returns the same with variables filled in; `$$` is a dollar."""
    if isinstance(value, dict):
        return {key: _filled(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, variables) for part in value]
    return _VARIABLE.sub(_filler(variables), value) if isinstance(value, str) else value


def _filler(variables: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    def fill(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name is None:
            return "$"
        text = variables.get(name, default)
        if text is None:
            raise OptionError(f"variable {name} is not set: give --set {name}=VALUE, or write ${{{name}:-default}}")
        return text

    return fill
