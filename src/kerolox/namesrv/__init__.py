"""The NameServer: the route table and those who ask it."""

from kerolox.namesrv.configuration import NamesrvConfig
from kerolox.namesrv.namesrv import NameServer

__all__ = ["NameServer", "NamesrvConfig"]
