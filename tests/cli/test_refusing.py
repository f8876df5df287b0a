"""How commands end that the system has refused something, or that were given what is no text."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from kerolox.cli.refusing import Refusing

_PRINTING = """
import click
from kerolox.cli.refusing import Refusing
Refusing("x", callback=lambda: click.echo("caf\\u00e9 \\u65e5"))([])
"""


def test_a_terminal_that_lacks_characters_is_shown_their_numbers() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}

    ended = subprocess.run([sys.executable, "-c", _PRINTING], env=environment, capture_output=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"caf\xe9 \\u65e5\n", b"")


def _refused() -> None:
    raise PermissionError(13, "Permission denied", "/data")


def _half() -> None:
    ("x" * 100 + "\udcff" * 100).encode()


@pytest.mark.parametrize(
    ("callback", "told"),
    [(_refused, "Permission denied: /data"), (_half, repr("\udcff" * 40) + " is no text in UTF-8, which it is to be")],
)
def test_it_is_told_in_a_sentence(callback: Callable[[], None], told: str) -> None:
    ended = CliRunner().invoke(Refusing("x", callback=callback), [])

    assert (ended.exit_code, ended.stderr) == (1, f"Error: {told}\n")
