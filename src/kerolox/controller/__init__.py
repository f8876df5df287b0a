"""The controller of RocketMQ 5: who is master of a broker group, by epoch and sync state set."""

from kerolox.controller.config import ControllerConfig
from kerolox.controller.controller import Controller

__all__ = ["Controller", "ControllerConfig"]
