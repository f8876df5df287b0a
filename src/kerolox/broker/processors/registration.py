"""What NameServers tell a broker."""

import logging

from kerolox.remoting.routes import Incoming, handles
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import NotifyMinBrokerIdChange
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)


class RegistrationProcessor:
    @handles(NotifyMinBrokerIdChange)
    def first_changed(self, request: Incoming[NotifyMinBrokerIdChange]) -> Reply[Empty]:
        """Of interest to slaves, which this broker is none of."""
        header = request.header
        log.info("the first of the group is now %s at %s", header.min_broker_id, header.min_broker_addr)
        return Reply()
