"""Key-value configuration (namespace → key → value), stored in one file (KVConfigManager)."""

import asyncio
import logging
from pathlib import Path

import msgspec

from kerolox.errors import ConfigurationError, ProtocolError, SystemFailure
from kerolox.runtime.files import BACKUP_SUFFIX, Disk, replace_whole
from kerolox.runtime.threads import in_thread
from kerolox.wire.bodies.kv import KVConfig, KVTable

log = logging.getLogger(__name__)

# The namespace of ordered topics; a value lists the queues per broker, such as `broker-a:8;broker-b:8`.
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


class KVConfigTable:
    """The table in memory. Every change is durable on disk before it is acknowledged."""

    def __init__(self, disk: Disk, path: Path, *, bytes_max: int) -> None:
        self._disk = disk
        self._path = path
        self._bytes_max = bytes_max
        self._table: dict[str, dict[str, str]] = {}
        self._encoded: dict[str, bytes] = {}
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file, or its backup if the file cannot be read; a missing file is an empty table."""
        try:
            content = self._disk.read(self._path)
            if content is None:
                return
            self._table = _decoded(content)
        except (ProtocolError, OSError) as error:
            log.warning("cannot read key-value file %s, trying its backup: %s", self._path, error)
            self._load_backup(error)

    def _load_backup(self, reason: Exception) -> None:
        try:
            content = self._disk.read(self._path.with_name(self._path.name + BACKUP_SUFFIX))
            if content is None:
                raise ProtocolError("there is no backup")
            self._table = _decoded(content)
        except (ProtocolError, OSError) as error:
            raise ConfigurationError(
                f"kvConfigPath={self._path} cannot be read ({reason}), nor can its backup ({error})"
            ) from error

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return the entries of a namespace, or None if it never had one."""
        return self._table.get(namespace)

    def encoded(self, namespace: str) -> bytes | None:
        """Return the entries of a namespace as an encoded KVTable, which is cached; None if it never had one."""
        pairs = self._table.get(namespace)
        if pairs is None:
            return None
        encoded = self._encoded.get(namespace)
        if encoded is None:
            encoded = self._encoded[namespace] = KVTable(pairs).encode()
        return encoded

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Return when the value is on disk; SystemFailure, without a change, if it cannot be stored."""
        await self._change(namespace, key, value)

    async def delete(self, namespace: str, key: str) -> None:
        if self.get(namespace, key) is not None:
            await self._change(namespace, key, None)

    async def _change(self, namespace: str, key: str, value: str | None) -> None:
        # One writer at a time, or an older state could overwrite a newer one on disk.
        async with self._writing:
            pairs = dict(self._table.get(namespace, {}))
            if value is None:
                pairs.pop(key, None)
            else:
                pairs[key] = value
            table = self._table | {namespace: pairs}
            try:
                await in_thread(self._save, table)
            except OSError as error:
                log.exception("cannot write key-value file %s", self._path)
                raise SystemFailure(f"the value cannot be stored: {error}") from error
            self._table = table
            self._encoded.pop(namespace, None)

    def _save(self, table: dict[str, dict[str, str]]) -> None:
        content = msgspec.json.encode(KVConfig(table))
        if len(content) > self._bytes_max:
            raise SystemFailure(
                f"key-value configuration of {len(content)} bytes exceeds the limit of {self._bytes_max} "
                "(kvConfigBytesMax)"
            )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(self._disk, self._path, content)


def _decoded(content: bytes) -> dict[str, dict[str, str]]:
    return KVConfig.decode(content).config_table
