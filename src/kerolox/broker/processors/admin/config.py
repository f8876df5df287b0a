"""Reading and changing the configuration of a running broker; passwords are never returned."""

import logging
import os

from kerolox.broker.parts import BrokerParts
from kerolox.broker.registration.registrar import Registrar
from kerolox.broker.tables.json_file import bump
from kerolox.errors import ConfigurationError, SystemFailure
from kerolox.remoting.address import parse_addresses
from kerolox.remoting.audit import audited
from kerolox.remoting.config_update import ConfigFile, in_words, shown, wanted_changes
from kerolox.remoting.router import Incoming, handles
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.header import Empty
from kerolox.wire.headers.broker import BrokerConfigFound, GetBrokerConfig, UpdateBrokerConfig
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

# Keys that mqadmin's exportConfigs and exportMetrics require; they are not settings of this broker.
_CONSTANTS = {
    "clientCallbackExecutorThreads": str(os.cpu_count() or 1),
    "filterServerNums": "0",
    "useTLS": "false",
}
_NAMESRV = "namesrvAddr"
_PERMISSION = "brokerPermission"


class ConfigProcessor:
    """A change takes effect at once, and is saved to the configuration file before the response is sent."""

    def __init__(self, parts: BrokerParts, registration: Registrar) -> None:
        self._settings = parts.settings
        self._topics = parts.topics
        self._registration = registration
        self._file = ConfigFile(parts.disk)
        self._clock = parts.clock
        self._version = DataVersion(timestamp=parts.clock.millis())

    @handles(GetBrokerConfig)
    def get(self, request: Incoming[GetBrokerConfig]) -> Reply[BrokerConfigFound]:
        header = BrokerConfigFound(version=self._version.encode().decode())
        return Reply(header, shown(dict(sorted((_CONSTANTS | self._settings.to_properties()).items()))))

    @handles(UpdateBrokerConfig)
    async def update(self, request: Incoming[UpdateBrokerConfig]) -> Reply[Empty]:
        with audited(request, f"change configuration: {in_words(request.body, self._settings.keys())}"):
            await self._update(request.body)
        return Reply()

    async def _update(self, body: bytes) -> None:
        config = self._settings.broker
        changes = wanted_changes(body, self._settings.keys(), black_list=config.config_black_list, also=(_NAMESRV,))
        try:
            if _NAMESRV in changes and not parse_addresses(changes[_NAMESRV]):
                raise ConfigurationError(f"{_NAMESRV} is empty: expected host:port, several separated by ';'")
            self._settings.update(changes)
        except ConfigurationError as error:
            raise SystemFailure(str(error)) from error
        if not changes:
            return
        bump(self._version, self._clock.millis())
        self._apply(changes)
        if config.config_store_path is None:
            log.warning("the change is lost at the next start: the broker has no configuration file (-c)")
        else:
            await self._file.save(config.config_store_path, self._settings.to_properties())

    def _apply(self, changes: dict[str, str]) -> None:
        if _NAMESRV in changes:
            self._registration.update(parse_addresses(changes[_NAMESRV]))
        if _PERMISSION in changes:
            # NameServers ignore a registration with the same data version.
            self._topics.bump_version()
            self._registration.register_soon()
