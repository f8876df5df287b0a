"""OS errors and undecodable arguments are reported in one line."""

import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from kerolox.cli.errors import OneLineErrors

_PRINTING = """
import click
from kerolox.cli.errors import OneLineErrors
OneLineErrors("x", callback=lambda: click.echo("caf\\u00e9 \\u65e5"))([])
"""


def test_characters_that_the_encoding_lacks_are_escaped() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}

    result = subprocess.run([sys.executable, "-c", _PRINTING], env=environment, capture_output=True, check=False)

    assert (result.returncode, result.stdout, result.stderr) == (0, b"caf\xe9 \\u65e5\n", b"")


def _raise_permission_error() -> None:
    raise PermissionError(13, "Permission denied", "/data")


def _raise_encode_error() -> None:
    ("x" * 100 + "\udcff" * 100).encode()


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (_raise_permission_error, "Permission denied: /data"),
        (_raise_encode_error, repr("\udcff" * 40) + " is not valid UTF-8"),
    ],
)
def test_errors_are_one_line(callback: Callable[[], None], message: str) -> None:
    result = CliRunner().invoke(OneLineErrors("x", callback=callback), [])

    assert (result.exit_code, result.stderr) == (1, f"Error: {message}\n")


def test_foreign_text_in_an_error_is_escaped() -> None:
    def callback() -> None:
        raise click.ClickException("topic \x1b[2J\u202e does not exist")

    result = CliRunner().invoke(OneLineErrors("x", callback=callback), [])

    assert result.stderr == "Error: topic \\x1b[2J\\u202e does not exist\n"
