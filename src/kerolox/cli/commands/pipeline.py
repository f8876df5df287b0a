"""`kerolox pipeline`: runs a pipeline on Spark, either declared in a file or ready-made."""

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

from kerolox.cli.admin.errors import describe_spark_error
from kerolox.errors import KeroloxError
from kerolox.runtime.text.terminal import escape_line
from kerolox.runtime.user_dir import home

# The modules are imported by name and import Spark only when a pipeline runs, so that `--help` works without it.
_PACKAGE = "kerolox.spark.pipelines"
# Command, module, function, and the dataclass of its options.
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
        help="Spark master, as for spark-submit: local[*] (the default), spark://..., yarn, k8s://...",
    ),
    click.option(
        "--conf", "settings", multiple=True, metavar="KEY=VALUE", help="Spark configuration; may be repeated."
    ),
)


@click.group(short_help="Run pipelines over topics on Spark.", context_settings={"help_option_names": ["-h", "--help"]})
def pipeline() -> None:
    """Run pipelines over topics on Spark: declared in a file, or ready-made."""


@pipeline.command(short_help="Run the pipeline that FILE declares, until it is finished or stopped.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-n", "--namesrv", "name_server", envvar="NAMESRV_ADDR", help="NameServers; overrides the file.")
@click.option(
    "--set", "variables", multiple=True, metavar="NAME=VALUE", help="Value of ${NAME} in the file; may be repeated."
)
@click.option("--name", help="Name under which its progress is shown.")
def run(
    file: Path,
    name_server: str | None,
    variables: tuple[str, ...],
    name: str | None,
    master: str | None,
    settings: tuple[str, ...],
) -> None:
    """Run the pipeline that FILE declares, until it is finished or stopped.

    FILE is TOML with sources, tables and sinks, or a spec of Spark's declarative pipelines (.yml), which is passed to
    Spark's own runner. Ctrl-C and SIGTERM stop it after the current batch; the next run continues from there.

    \b
    kerolox pipeline run orders.toml
    kerolox pipeline run orders.toml --master spark://host:7077 \\
        --conf spark.executor.memory=2g
    """
    if file.suffix in _module("engine.spark_declarative").SUFFIXES:
        source = click.get_current_context().get_parameter_source
        for name_given, flag in (("name_server", "--namesrv"), ("variables", "--set")):
            if source(name_given) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{flag} is for TOML files: set it in the Spark spec, or with --conf")
        _as_run(
            name or file.parent.absolute().name,
            file,
            lambda running: _module("engine.spark_declarative").run_spec(
                file, running, master, _pairs(settings, "--conf")
            ),
        )
        return
    try:
        declared = _module("engine.spec").read_pipeline(
            file, name_server=name_server, variables=_pairs(variables, "--set")
        )
    except KeroloxError as error:
        raise click.ClickException(str(error)) from None

    def work(running: Any) -> None:
        with _session(running, master, {**declared.spark, **_pairs(settings, "--conf")}) as spark:
            _module("engine.build").run_pipeline(spark, declared, running)

    _as_run(name or declared.name, file, work)


for _option in reversed(_SPARK_OPTIONS):
    run = _option(run)


def _command(name: str, module_name: str, function_name: str, options_name: str) -> click.Command:
    """Return the command of a ready-made pipeline: its help is its module's docstring, its flags are its options."""
    module = _module(module_name)
    options_type = getattr(module, options_name)

    def callback(
        master: str | None, settings: tuple[str, ...], run_name: str | None, is_json: bool, **values: Any
    ) -> None:
        try:
            options = options_type(**values)
        except KeroloxError as error:
            raise click.ClickException(str(error)) from None

        def work(running: Any) -> list[dict[str, Any]]:
            with _session(running, master, _pairs(settings, "--conf")) as spark:
                return _rows(getattr(module, function_name)(spark, options, running))

        _print(_as_run(run_name or name, None, work) or [], is_json=is_json)

    parameters: list[click.Parameter] = [_parameter(field, kind) for field, kind in _fields(options_type)]
    parameters += [
        click.Option(["--name", "run_name"], help="Name under which its progress is shown."),
        click.Option(["--json", "is_json"], is_flag=True, help="Print the result as JSON, one row per line."),
    ]
    text = module.__doc__
    # Without a short help the list of commands would cut this line off.
    first_line = text.partition("\n")[0]
    command = click.Command(name, params=parameters, callback=callback, help=text, short_help=first_line)
    for option in reversed(_SPARK_OPTIONS):
        command = option(command)
    return command


def _fields(options_type: Any) -> Iterable[tuple["dataclasses.Field[Any]", Any]]:
    hints = typing.get_type_hints(options_type)
    return [(field, hints[field.name]) for field in dataclasses.fields(options_type)]


def _parameter(field: "dataclasses.Field[Any]", kind: Any) -> click.Option:
    flags = field.metadata["flag"] or f"--{field.name.replace('_', '-')}"
    is_required = field.default is dataclasses.MISSING
    extra: dict[str, Any] = {name: field.metadata[name] for name in ("help", "envvar")} | {"required": is_required}
    if kind is bool:
        return click.Option([*flags.split(","), field.name], is_flag=True, default=field.default, **extra)
    if typing.get_origin(kind) is tuple:
        extra |= {"metavar": "KEY=VALUE"} if field.name.endswith("_options") else {}
        return click.Option([*flags.split(","), field.name], multiple=True, **extra)
    plain = next(part for part in typing.get_args(kind) or (kind,) if part is not types.NoneType)
    if not is_required and field.default is not None:
        extra |= {"default": field.default, "show_default": True}
    return click.Option([*flags.split(","), field.name], type=plain, **extra)


def _module(name: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _session(running: Any, master: str | None, settings: Mapping[str, str]) -> Any:
    return _module("engine.session").session(running, master, settings)


def _as_run(name: str, file: Path | None, work: Callable[[Any], Any]) -> Any:
    """Do the work as a run: signals stop it, and its progress is shown here and in the dashboard. Return its result."""
    running_module = _module("engine.runner")
    try:
        with _module("engine.console").progress_display() as show:
            running = running_module.Run(name, file=file, folder=home() / "pipelines", show=show)
            before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
            running.install_signal_handlers()
            try:
                with running:
                    return work(running)
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        return None
    except KeroloxError as error:
        raise click.ClickException(describe_spark_error(str(error))) from None


def _pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.UsageError(f"{flag} {text!r}: expected NAME=VALUE")
        pairs[name] = value
    return pairs


def _rows(result: Any) -> list[dict[str, Any]]:
    """Return the result of a pipeline as rows: a dataclass is one row, a data frame is collected."""
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
        from rich.text import Text

        table = Table(*rows[0])
        for row in rows:
            table.add_row(*(Text(_cell(value)) for value in row.values()))
        Console().print(table)
    elif rows:
        for line in (list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)):
            click.echo("\t".join(line))


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else escape_line(str(value))


for _declared in _READY_MADE:
    pipeline.add_command(_command(*_declared))
