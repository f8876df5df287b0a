"""`kerolox pipeline`: what a file declares, or what comes ready-made, run on Spark."""

import dataclasses
import importlib
import json
import signal
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kerolox.cli.admin.errors import unnamed
from kerolox.errors import KeroloxError
from kerolox.runtime.home import home

# Spark is imported when something is run: `--help` works without it, and no other command should carry it.
_PACKAGE = "kerolox.spark.pipelines"
# Command, module, its function, and the options of that.
_READY_MADE: tuple[tuple[str, str, str, str], ...] = (
    ("aggregate", "aggregate", "aggregate", "AggregateOptions"),
    ("archive", "archive", "archive", "ArchiveOptions"),
    ("audit", "audit", "audit", "AuditOptions"),
    ("dead-letters", "dead_letters", "dead_letters", "DeadLettersOptions"),
    ("replay", "replay", "replay", "ReplayOptions"),
    ("trace", "trace", "trace", "TraceOptions"),
)

_SPARK_OPTIONS = (
    click.option(
        "--master",
        help="Where Spark runs: local[*] (the default), spark://..., yarn, k8s://..., as spark-submit has it.",
    ),
    click.option(
        "--conf", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be repeated."
    ),
)


@click.group(short_help="Run pipelines over topics on Spark.", context_settings={"help_option_names": ["-h", "--help"]})
def pipeline() -> None:
    """Run pipelines over topics on Spark: declared in a file, or ready-made."""


@pipeline.command(short_help="Run the pipeline that FILE declares, until it is done or stopped.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-n", "--namesrv", "name_server", envvar="NAMESRV_ADDR", help="NameServers; wins over the file's.")
@click.option("--set", "variables", multiple=True, metavar="NAME=VALUE", help="What ${NAME} stands for in the file.")
@click.option("--name", help="Another name, under which its progress is shown.")
def run(
    file: Path,
    name_server: str | None,
    variables: tuple[str, ...],
    name: str | None,
    master: str | None,
    settings: tuple[str, ...],
) -> None:
    """Run the pipeline that FILE declares, until it is done or stopped.

    FILE is TOML with sources, tables and sinks, or a spec of Spark's declarative pipelines (.yml), which Spark's own
    runner gets. Ctrl-C and SIGTERM end it after the batch that is under way; run again it goes on where it was.

    \b
    kerolox pipeline run orders.toml
    kerolox pipeline run orders.toml --master spark://host:7077 \\
        --conf spark.executor.memory=2g
    """
    if file.suffix in _module("declarative").SUFFIXES:
        source = click.get_current_context().get_parameter_source
        for name_given, flag in (("name_server", "--namesrv"), ("variables", "--set")):
            if source(name_given) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{flag} is for TOML: a spec of Spark's says it itself, or --conf does")
        _in_a_run(
            name or file.parent.absolute().name,
            file,
            lambda running: _module("declarative").run_spec(file, running, master, _pairs(settings, "--conf")),
        )
        return
    try:
        declared = _module("declared").read_pipeline(
            file, name_server=name_server, variables=_pairs(variables, "--set")
        )
    except KeroloxError as error:
        raise click.ClickException(str(error)) from None

    def work(running: Any) -> None:
        with _session(running, master, {**declared.spark, **_pairs(settings, "--conf")}) as spark:
            _module("building").run_pipeline(spark, declared, running)

    _in_a_run(name or declared.name, file, work)


for _option in reversed(_SPARK_OPTIONS):
    run = _option(run)


def _command(name: str, module_name: str, function_name: str, options_name: str) -> click.Command:
    """Returns the command of a ready-made pipeline, made of what its module declares."""
    module = _module(module_name)
    options_type = getattr(module, options_name)

    def callback(
        master: str | None, settings: tuple[str, ...], run_name: str | None, is_json: bool, **given: Any
    ) -> None:
        try:
            options = options_type(**given)
        except KeroloxError as error:
            raise click.ClickException(str(error)) from None

        def work(running: Any) -> list[dict[str, Any]]:
            with _session(running, master, _pairs(settings, "--conf")) as spark:
                return _rows(getattr(module, function_name)(spark, options, running))

        _print(_in_a_run(run_name or name, None, work) or [], is_json=is_json)

    parameters: list[click.Parameter] = [_parameter(field, kind) for field, kind in _fields(options_type)]
    parameters += [
        click.Option(["--name", "run_name"], help="Another name, under which its progress is shown."),
        click.Option(["--json", "is_json"], is_flag=True, help="Print the result as JSON, a row to a line."),
    ]
    told = module.__doc__
    # Else the list of commands would show only as much as fits into one line.
    whole = told.partition("\n")[0]
    command = click.Command(name, params=parameters, callback=callback, help=told, short_help=whole)
    for option in reversed(_SPARK_OPTIONS):
        command = option(command)
    return command


def _fields(options_type: Any) -> Iterable[tuple["dataclasses.Field[Any]", Any]]:
    hints = typing.get_type_hints(options_type)
    return [(field, hints[field.name]) for field in dataclasses.fields(options_type)]


def _parameter(field: "dataclasses.Field[Any]", kind: Any) -> click.Option:
    flags = field.metadata["flag"] or f"--{field.name.replace('_', '-')}"
    is_needed = field.default is dataclasses.MISSING
    told: dict[str, Any] = {name: field.metadata[name] for name in ("help", "envvar")} | {"required": is_needed}
    if kind is bool:
        return click.Option([*flags.split(","), field.name], is_flag=True, default=field.default, **told)
    if typing.get_origin(kind) is tuple:
        told |= {"metavar": "KEY=VALUE"} if field.name.endswith("_options") else {}
        return click.Option([*flags.split(","), field.name], multiple=True, **told)
    plain = next(part for part in typing.get_args(kind) or (kind,) if part is not types.NoneType)
    if not is_needed and field.default is not None:
        told |= {"default": field.default, "show_default": True}
    return click.Option([*flags.split(","), field.name], type=plain, **told)


def _module(name: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _session(running: Any, master: str | None, settings: Mapping[str, str]) -> Any:
    return _module("session").session(running, master, settings)


def _in_a_run(name: str, file: Path | None, work: Callable[[Any], Any]) -> Any:
    """Returns what the work gives, while signals stop it, and people and the dashboard see how far it is."""
    running_module = _module("running")
    try:
        with _module("screen").shown() as show:
            running = running_module.Run(name, file=file, folder=home() / "pipelines", show=show)
            before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
            running.take_signals()
            try:
                with running:
                    return work(running)
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        return None
    except KeroloxError as error:
        raise click.ClickException(unnamed(str(error))) from None


def _pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.UsageError(f"{flag} {text!r}: expected NAME=VALUE")
        pairs[name] = value
    return pairs


def _rows(result: Any) -> list[dict[str, Any]]:
    """Returns a table, or what a pipeline says of itself, as rows."""
    if result is None:
        return []
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return [dataclasses.asdict(result)]
    return [row.asDict() for row in result.collect()]


def _print(rows: list[dict[str, Any]], *, is_json: bool) -> None:
    if is_json:
        for row in rows:
            click.echo(json.dumps(row, default=str))
    elif rows and sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*rows[0])
        for row in rows:
            table.add_row(*map(_cell, row.values()))
        Console().print(table)
    elif rows:
        for line in (list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)):
            click.echo("\t".join(line))


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


for _declared in _READY_MADE:
    pipeline.add_command(_command(*_declared))
