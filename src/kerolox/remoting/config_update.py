"""Configuration updates over the wire: which settings may change, and the file that they are saved to.

Paths and commands can never be changed this way.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kerolox.errors import NoPermission, SystemFailure
from kerolox.runtime.files import Disk, replace_whole
from kerolox.runtime.text import properties
from kerolox.runtime.threads import in_thread

log = logging.getLogger(__name__)

# Keys that cannot be changed whatever `configBlackList` says.
_NEVER = frozenset({"configBlackList", "rocketmqHome"})
# All settings of a broker together take 5 KiB.
_CHANGES_SIZE_MAX = 32 * 1024
_SECRETS = ("password", "secret")


def shown(settings: Mapping[str, str]) -> bytes:
    """Return settings as lines of `key=value`, without secrets."""
    return "".join(f"{key}={value}\n" for key, value in settings.items() if not _is_secret(key)).encode()


def _is_secret(key: str) -> bool:
    return any(secret in key.lower() for secret in _SECRETS)


def in_words(body: bytes, keys: Collection[str]) -> str:
    """Return the changes of a request for the audit log: settings among `keys`, and ignored ones."""
    if len(body) > _CHANGES_SIZE_MAX:
        # Too large, so it will be refused; parsing it would take long.
        return f"{len(body)} bytes"
    wanted = properties.parse(body.decode(errors="replace"))
    known = ", ".join(f"{key}={value}" for key, value in wanted.items() if key in keys and not _is_secret(key))
    unknown = ", ".join(key for key in wanted if key not in keys)
    return f"{known or 'nothing'} (ignored, unknown: {unknown})" if unknown else known or "nothing"


def wanted_changes(
    body: bytes,
    keys: Mapping[str, "dataclasses.Field[Any]"],
    *,
    black_list: str,
    also: Collection[str] = (),
) -> dict[str, str]:
    """Return the settings among `keys` that a request changes; unknown keys are ignored.

    NoPermission if one is black-listed, or is not marked changeable where it is declared, nor among `also`.
    """
    if len(body) > _CHANGES_SIZE_MAX:
        raise SystemFailure(f"changes of {len(body)} bytes, at most {_CHANGES_SIZE_MAX} allowed")
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
    """Saves changed settings; writes are serialized, and each writes the settings of its time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._saving = asyncio.Lock()

    async def save(self, path: Path, settings: Mapping[str, str]) -> None:
        """Replace the file; SystemFailure if it cannot be written, so that the change is lost at a restart."""
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
