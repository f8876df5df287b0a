"""Client options of a command: NameServers, keys and TLS, from flags, the environment and Java's tools.yml."""

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
# The timeout of Java's tools.
TIMEOUT_SECONDS = 20.0


_FILE = click.Path(path_type=Path, dir_okay=False)
# Flags of every command that connects, besides the NameServers; `client_options` takes their values.
FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--access-key", {"envvar": "KEROLOX_ACCESS_KEY", "help": "Access key, for brokers with access control."}),
    ("--secret-key", {"envvar": "KEROLOX_SECRET_KEY", "help": "Secret key that belongs to the access key."}),
    ("--tls", {"is_flag": True, "help": "Encrypt connections; servers are verified only with --tls-ca."}),
    ("--tls-ca", {"type": _FILE, "help": "Encrypt, and trust servers whose certificate this CA signed (PEM)."}),
    ("--tls-cert", {"type": _FILE, "help": "Encrypt, and present this client certificate (PEM)."}),
    ("--tls-key", {"type": _FILE, "help": "Private key of the client certificate, if it is in another file."}),
)


def client_options(
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
        access_key, secret_key = _keys_from_tools_yml()
    return Options(
        namesrv_addr=namesrv_addr or os.environ.get("NAMESRV_ADDR") or DEFAULT_NAME_SERVER,
        access_key=access_key,
        secret_key=secret_key,
        tls=_tls_context(tls_ca, tls_cert, tls_key) or tls,
    )


def _tls_context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context for these files; None if none is given."""
    if ca is None and certificate is None and key is None:
        return None
    if certificate is None and key is not None:
        raise ConfigurationError(f"--tls-key {key} needs a certificate: give it with --tls-cert")
    # The CA first and by itself, since OpenSSL does not say which file it could not load.
    flags = " with ".join(f"{flag} {file}" for flag, file in (("--tls-cert", certificate), ("--tls-key", key)) if file)
    try:
        client_context(ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"--tls-ca {ca} cannot be used: {_reason(error)}") from error
    try:
        return client_context(ca, certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{flags} cannot be used: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "no certificate or key in PEM format, or the key does not match the certificate"
    return error.strerror or str(error)


def admin_client(options: Options) -> AdminClient:
    return AdminClient(options=options, timeout_seconds=TIMEOUT_SECONDS)


def _keys_from_tools_yml() -> tuple[str | None, str | None]:
    """Return the keys that Java's tools use: `accessKey: ...` and `secretKey: ...` in $ROCKETMQ_HOME/conf/tools.yml."""
    home = os.environ.get("ROCKETMQ_HOME")
    try:
        lines = (Path(home) / "conf" / "tools.yml").read_text("utf-8").splitlines() if home else []
    except (OSError, UnicodeDecodeError):
        lines = []
    found = dict(line.partition(":")[::2] for line in lines if ":" in line and not line.lstrip().startswith("#"))
    values = {name.strip(): value.strip().strip("'\"") for name, value in found.items()}
    keys = values.get("accessKey"), values.get("secretKey")
    return keys if all(keys) else (None, None)
