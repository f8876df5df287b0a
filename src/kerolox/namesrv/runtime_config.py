"""Configuration over the wire: everything may be read, little may be changed, and never a path or a command."""

import logging

from kerolox.errors import ConfigurationError, SystemFailure
from kerolox.namesrv.configuration import NamesrvConfig
from kerolox.namesrv.route_table import RouteTable
from kerolox.remoting.configuring import ConfigFile, shown, wanted_changes
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.files import Disk
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import GetNamesrvConfig, UpdateNamesrvConfig
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)


class ConfigProcessor:
    """What may change is a flag or a number, marked changeable where it is declared."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, disk: Disk) -> None:
        self._config = config
        self._table = table
        self._file = ConfigFile(disk)

    @handles(GetNamesrvConfig)
    def get(self, request: Incoming[GetNamesrvConfig]) -> Reply[Empty]:
        return Reply(None, shown(self._config.to_properties()))

    @handles(UpdateNamesrvConfig)
    async def update(self, request: Incoming[UpdateNamesrvConfig]) -> Reply[Empty]:
        changes = wanted_changes(request.body, self._config.keys(), black_list=self._config.config_black_list)
        try:
            self._config.update(changes)
        except ConfigurationError as error:
            raise SystemFailure(str(error)) from error
        self._table.forget_answers()
        log.info("%s changed the configuration: %s", request.connection.remote, changes)
        if changes:
            await self._file.save(self._config.config_store_path, self._config.to_properties())
        return Reply()
