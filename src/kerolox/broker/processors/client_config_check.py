"""CHECK_CLIENT_CONFIG: whether this broker accepts the filter of a subscription (ClientManageProcessor)."""

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import SubscriptionParseFailed
from kerolox.broker.tables.consumer_filters import compiled, is_tag_type
from kerolox.errors import SystemFailure
from kerolox.filters.errors import ExpressionError
from kerolox.remoting.router import Incoming, handles
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.clients import CheckClientRequest
from kerolox.wire.header import Empty
from kerolox.wire.headers.clients import CheckClientConfig
from kerolox.wire.reply import Reply


class ClientConfigCheckProcessor:
    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    @handles(CheckClientConfig, request_queue="clientManager")
    def check(self, request: Incoming[CheckClientConfig]) -> Reply[Empty]:
        subscription = CheckClientRequest.decode(request.body, REQUEST).subscription_data if request.body else None
        if subscription is None or is_tag_type(subscription.expression_type):
            return Reply()
        if not self._config.enable_property_filter:
            kind = subscription.expression_type
            raise SystemFailure(f"The broker does not support consumer to filter message by {kind}")
        try:
            compiled(subscription.sub_string or "", subscription.expression_type)
        except ExpressionError as error:
            raise SubscriptionParseFailed(f"Invalid MessageSelector. {error}") from error
        return Reply()
