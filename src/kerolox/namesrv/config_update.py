"""Configuration over the wire: all settings can be read; only flags and numbers marked changeable can be changed."""

from kerolox.errors import ConfigurationError, SystemFailure
from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.route_table import RouteTable
from kerolox.remoting.audit import audited
from kerolox.remoting.config_update import ConfigFile, in_words, shown, wanted_changes
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.files import Disk
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import GetNamesrvConfig, UpdateNamesrvConfig
from kerolox.wire.reply import Reply


class ConfigProcessor:
    """Answers GET_NAMESRV_CONFIG and UPDATE_NAMESRV_CONFIG."""

    def __init__(self, config: NamesrvConfig, table: RouteTable, disk: Disk) -> None:
        self._config = config
        self._table = table
        self._file = ConfigFile(disk)

    @handles(GetNamesrvConfig)
    def get(self, request: Incoming[GetNamesrvConfig]) -> Reply[Empty]:
        return Reply(None, shown(self._config.to_properties()))

    @handles(UpdateNamesrvConfig)
    async def update(self, request: Incoming[UpdateNamesrvConfig]) -> Reply[Empty]:
        with audited(request, f"change configuration: {in_words(request.body, self._config.keys())}"):
            await self._update(request.body)
        return Reply()

    async def _update(self, body: bytes) -> None:
        changes = wanted_changes(body, self._config.keys(), black_list=self._config.config_black_list)
        try:
            self._config.update(changes)
        except ConfigurationError as error:
            raise SystemFailure(str(error)) from error
        self._table.invalidate_responses()
        if changes:
            await self._file.save(self._config.config_store_path, self._config.to_properties())
