"""What NameServers tell a broker."""

import logging

from kerolox.broker.configuration import MASTER_ID, BrokerConfig
from kerolox.broker.registration import Registration
from kerolox.remoting.routes import Incoming, handles
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import NotifyMinBrokerIdChange
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)


class RegistrationProcessor:
    def __init__(self, config: BrokerConfig, registration: Registration) -> None:
        self._config = config
        self._registration = registration

    @handles(NotifyMinBrokerIdChange)
    def first_changed(self, request: Incoming[NotifyMinBrokerIdChange]) -> Reply[Empty]:
        """A slave asks the NameServers who its master is now, and takes nobody else's word for it."""
        header = request.header
        log.info("the first of the group is now %s at %s", header.min_broker_id, header.min_broker_addr)
        if self._config.broker_id != MASTER_ID:
            self._registration.register_soon()
        return Reply()
