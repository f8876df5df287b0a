"""With what a command connects: NameServers, keys and TLS, from flags, the environment and Java's file of keys."""

import os
from pathlib import Path

from kerolox.admin import AdminClient
from kerolox.client.options import Options

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
# As long as Java's tools wait.
TIMEOUT_SECONDS = 20.0


def options(
    namesrv_addr: str | None, *, access_key: str | None = None, secret_key: str | None = None, tls: bool = False
) -> Options:
    if access_key is None and secret_key is None:
        access_key, secret_key = _keys_of_tools()
    return Options(
        namesrv_addr=namesrv_addr or os.environ.get("NAMESRV_ADDR") or DEFAULT_NAME_SERVER,
        access_key=access_key,
        secret_key=secret_key,
        tls=tls,
    )


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
