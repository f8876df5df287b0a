"""Configuration over the wire: what may be changed, and the file that keeps it. Never a path or a command."""

import asyncio
import dataclasses
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kerolox.errors import NoPermission, SystemFailure
from kerolox.runtime import properties
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.files import Disk, replace_whole

log = logging.getLogger(__name__)

# What no black list can allow.
_NEVER = frozenset({"configBlackList", "rocketmqHome"})
_SECRETS = ("password", "secret")


def shown(settings: Mapping[str, str]) -> bytes:
    """Returns settings as lines for whoever asks: without passwords, which are said only to those who know them."""
    lines = [
        f"{key}={value}\n" for key, value in settings.items() if not any(secret in key.lower() for secret in _SECRETS)
    ]
    return "".join(lines).encode()


def wanted_changes(
    body: bytes,
    keys: Mapping[str, "dataclasses.Field[Any]"],
    *,
    black_list: str,
    also: Collection[str] = (),
) -> dict[str, str]:
    """Returns the settings among `keys` that a request asks to change; those that nobody knows are passed over.

    NoPermission if one is black-listed, or is not marked changeable where it is declared, nor among `also`.
    """
    try:
        wanted = properties.parse(body.decode())
    except UnicodeDecodeError as error:
        raise SystemFailure(f"the configuration is not UTF-8: {error}") from error
    if not wanted.keys().isdisjoint(_NEVER | set(black_list.split(";"))):
        raise NoPermission("Can not update config in black list.")
    changes = {key: value for key, value in wanted.items() if key in keys}
    for key in changes:
        if not keys[key].metadata.get("changeable") and key not in also:
            raise NoPermission(f"{key} cannot be changed while running; set it in the file and restart")
    return changes


class ConfigFile:
    """Where changes are kept; one is written at a time, each with what holds when its turn has come."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._saving = asyncio.Lock()

    async def save(self, path: Path, settings: Mapping[str, str]) -> None:
        """Replaces the file; SystemFailure says to who has asked that a change is not kept."""
        async with self._saving:
            content = properties.format_lines(settings).encode()
            try:
                await in_thread(self._write, path, content)
            except OSError as error:
                log.exception("configuration file %s cannot be written", path)
                raise SystemFailure(f"changed, but not kept over a restart: {error}") from error

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(self._disk, path, content)
