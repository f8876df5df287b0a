"""With what a command connects: NameServers, keys and TLS, from flags, the environment and Java's file of keys."""

import os
import ssl
from pathlib import Path
from typing import Any

import click

from kerolox.admin import AdminClient
from kerolox.client.options import Options
from kerolox.errors import ConfigurationError
from kerolox.remoting.tls import client_context

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
# As long as Java's tools wait.
TIMEOUT_SECONDS = 20.0


_FILE = click.Path(path_type=Path, dir_okay=False)
# What every command that connects takes, beside the NameServers; `options` knows what they mean.
FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--access-key", {"envvar": "KEROLOX_ACCESS_KEY", "help": "Who asks, if brokers want to know."}),
    ("--secret-key", {"envvar": "KEROLOX_SECRET_KEY", "help": "How that is proved."}),
    ("--tls", {"is_flag": True, "help": "Encrypt connections; without --tls-ca no server is verified."}),
    ("--tls-ca", {"type": _FILE, "help": "Encrypt, and trust servers whose certificate this CA has signed (PEM)."}),
    ("--tls-cert", {"type": _FILE, "help": "Encrypt, and show this certificate to servers (PEM)."}),
    ("--tls-key", {"type": _FILE, "help": "The key of that certificate, if it is not in the same file."}),
)


def options(
    namesrv_addr: str | None,
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    tls: bool = False,
    tls_ca: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
) -> Options:
    if access_key is None and secret_key is None:
        access_key, secret_key = _keys_of_tools()
    return Options(
        namesrv_addr=namesrv_addr or os.environ.get("NAMESRV_ADDR") or DEFAULT_NAME_SERVER,
        access_key=access_key,
        secret_key=secret_key,
        tls=_context(tls_ca, tls_cert, tls_key) or tls,
    )


def _context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Returns what verifies servers, and proves who asks; None if nothing of it was given."""
    if ca is None and certificate is None and key is None:
        return None
    if certificate is None and key is not None:
        raise ConfigurationError(f"--tls-key {key} is the key of no certificate: give that with --tls-cert")
    # One after the other, since OpenSSL does not say which of them it could not take.
    given = " with ".join(f"{flag} {file}" for flag, file in (("--tls-cert", certificate), ("--tls-key", key)) if file)
    try:
        client_context(ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"--tls-ca {ca} cannot be used: {_why(error)}") from error
    try:
        return client_context(ca, certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{given} cannot be used: {_why(error)}") from error


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "it holds no certificate or key in PEM, or they are not of each other"
    return error.strerror or str(error)


def client(given: Options) -> AdminClient:
    return AdminClient(options=given, timeout_seconds=TIMEOUT_SECONDS)


def _keys_of_tools() -> tuple[str | None, str | None]:
    """Returns the keys that Java's tools would take: `accessKey: ...` and `secretKey: ...` in conf/tools.yml."""
    home = os.environ.get("ROCKETMQ_HOME")
    try:
        lines = (Path(home) / "conf" / "tools.yml").read_text("utf-8").splitlines() if home else []
    except (OSError, UnicodeDecodeError):
        lines = []
    found = dict(line.partition(":")[::2] for line in lines if ":" in line and not line.lstrip().startswith("#"))
    values = {name.strip(): value.strip().strip("'\"") for name, value in found.items()}
    keys = values.get("accessKey"), values.get("secretKey")
    return keys if all(keys) else (None, None)
