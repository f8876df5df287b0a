"""The NameServer: brokers register their topics, clients query the routes."""

from kerolox.namesrv.config import NamesrvConfig
from kerolox.namesrv.namesrv import NameServer

__all__ = ["NameServer", "NamesrvConfig"]
