"""A broker: stores messages and serves them."""

from kerolox.broker.broker import Broker
from kerolox.broker.config import Settings

__all__ = ["Broker", "Settings"]
