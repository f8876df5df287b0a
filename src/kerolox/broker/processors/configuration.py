"""Configuration over the wire: everything but passwords may be read, and changed is what is marked changeable."""

import logging
import os

from kerolox.broker.configuration import Settings
from kerolox.broker.persistence import bump
from kerolox.broker.registration import Registration
from kerolox.broker.topics import TopicTable
from kerolox.errors import ConfigurationError, SystemFailure
from kerolox.remoting.address import parse_addresses
from kerolox.remoting.configuring import ConfigFile, shown, wanted_changes
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.header import Empty
from kerolox.wire.headers.broker import BrokerConfigFound, GetBrokerConfig, UpdateBrokerConfig
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

# What mqadmin's exportConfigs and exportMetrics read here, and stumble over if it is missing; there is nothing to set.
_FACTS = {
    "brokerRole": "ASYNC_MASTER",
    "clientCallbackExecutorThreads": str(os.cpu_count() or 1),
    "filterServerNums": "0",
    "useTLS": "false",
}
_NAMESRV = "namesrvAddr"
_PERMISSION = "brokerPermission"


class ConfigProcessor:
    """A change holds at once, and is in the file the broker was started with before it is answered."""

    def __init__(
        self, settings: Settings, topics: TopicTable, registration: Registration, disk: Disk, clock: Clock
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._registration = registration
        self._file = ConfigFile(disk)
        self._clock = clock
        self._version = DataVersion(timestamp=clock.millis())

    @handles(GetBrokerConfig)
    def get(self, request: Incoming[GetBrokerConfig]) -> Reply[BrokerConfigFound]:
        header = BrokerConfigFound(version=self._version.encode().decode())
        return Reply(header, shown(dict(sorted((_FACTS | self._settings.to_properties()).items()))))

    @handles(UpdateBrokerConfig)
    async def update(self, request: Incoming[UpdateBrokerConfig]) -> Reply[Empty]:
        config = self._settings.broker
        changes = wanted_changes(
            request.body, self._settings.keys(), black_list=config.config_black_list, also=(_NAMESRV,)
        )
        try:
            if _NAMESRV in changes and not parse_addresses(changes[_NAMESRV]):
                raise ConfigurationError(f"{_NAMESRV} is empty: expected host:port, several parted by ';'")
            self._settings.update(changes)
        except ConfigurationError as error:
            raise SystemFailure(str(error)) from error
        if not changes:
            return Reply()
        log.info("%s changed the configuration: %s", request.connection.remote, changes)
        bump(self._version, self._clock.millis())
        self._apply(changes)
        if config.config_store_path is None:
            log.warning(
                "the broker was started without a file (-c), so that its next start knows nothing of the change"
            )
        else:
            await self._file.save(config.config_store_path, self._settings.to_properties())
        return Reply()

    def _apply(self, changes: dict[str, str]) -> None:
        if _NAMESRV in changes:
            self._registration.update(parse_addresses(changes[_NAMESRV]))
        if _PERMISSION in changes:
            # NameServers read only what has another version.
            self._topics.touch()
            self._registration.register_soon()
