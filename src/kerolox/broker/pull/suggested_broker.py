"""Which broker of its group a consumer is told to pull from next (suggestWhichBrokerId)."""

from collections.abc import Callable

from kerolox.broker.config import MASTER_ID, BrokerConfig
from kerolox.broker.tables.groups import GroupTable
from kerolox.store.config import StoreConfig


class SuggestedBroker:
    """The suggestion for a group; `has_master` tells whether a slave knows a living master.

    Java's slaves suggest the master even when it is gone. 4.9 consumers then fail until their route has changed; here
    they stay with the slave.
    """

    def __init__(
        self, config: BrokerConfig, store_config: StoreConfig, groups: GroupTable, has_master: Callable[[], bool]
    ) -> None:
        self._config = config
        self._store_config = store_config
        self._groups = groups
        self._has_master = has_master

    def of(self, group: str, *, is_behind: bool) -> int:
        """Return the broker id for a group; it is behind if its messages are so old that a slave should serve them."""
        config, is_slave = self._config, self._store_config.is_slave
        if not (is_slave or config.slave_read_enable):
            return MASTER_ID
        settings = self._groups.groups.get(group)
        if is_behind and config.slave_read_enable and settings is not None:
            return settings.which_broker_when_consume_slowly
        if is_slave:
            return MASTER_ID if self._has_master() else config.broker_id
        return MASTER_ID if settings is None else settings.broker_id

    def returns_to_master(self) -> bool:
        """Whether a consumer that has read everything from this slave is sent back to the master at once."""
        return self._store_config.is_slave and self._config.slave_read_enable and self._has_master()
