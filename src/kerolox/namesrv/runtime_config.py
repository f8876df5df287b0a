"""Configuration over the wire: everything may be read, little may be changed, and never a path or a command."""

import asyncio
import logging
from pathlib import Path

from kerolox.errors import ConfigurationError, NoPermission, SystemFailure
from kerolox.namesrv.configuration import NamesrvConfig
from kerolox.namesrv.route_table import RouteTable
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime import properties
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.files import Disk, replace_whole
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import GetNamesrvConfig, UpdateNamesrvConfig
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

# Said only to those who have no business knowing it.
_SECRET = frozenset({"tls.server.keyPassword"})


class ConfigProcessor:
    """What may change is a flag or a number, marked changeable where it is declared."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, disk: Disk) -> None:
        self._config = config
        self._table = table
        self._disk = disk
        self._saving = asyncio.Lock()

    @handles(GetNamesrvConfig)
    def get(self, request: Incoming[GetNamesrvConfig]) -> Reply[Empty]:
        shown = {key: value for key, value in self._config.to_properties().items() if key not in _SECRET}
        return Reply(None, "".join(f"{key}={value}\n" for key, value in shown.items()).encode())

    @handles(UpdateNamesrvConfig)
    async def update(self, request: Incoming[UpdateNamesrvConfig]) -> Reply[Empty]:
        try:
            wanted = properties.parse(request.body.decode())
        except UnicodeDecodeError as error:
            raise SystemFailure(f"the configuration is not UTF-8: {error}") from error
        keys = self._config.keys()
        black_list = {"configBlackList", "rocketmqHome", *self._config.config_black_list.split(";")}
        if not black_list.isdisjoint(wanted):
            raise NoPermission("Can not update config in black list.")
        for key in wanted:
            if key in keys and not keys[key].metadata.get("changeable"):
                raise NoPermission(f"{key} cannot be changed while running; set it in the file and restart")
        changes = {key: value for key, value in wanted.items() if key in keys}
        try:
            self._config.update(changes)
        except ConfigurationError as error:
            raise SystemFailure(str(error)) from error
        self._table.forget_answers()
        log.info("%s changed the configuration: %s", request.connection.remote, changes)
        if changes:
            await self._save()
        return Reply()

    async def _save(self) -> None:
        # One at a time, each with what holds when its turn has come.
        async with self._saving:
            path = self._config.config_store_path
            content = properties.format_lines(self._config.to_properties()).encode()
            try:
                await in_thread(self._write, path, content)
            except OSError as error:
                log.exception("configuration file %s cannot be written", path)
                raise SystemFailure(f"changed, but not kept over a restart: {error}") from error

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(self._disk, path, content)
