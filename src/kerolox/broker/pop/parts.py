"""The state that taking, acknowledging and reviving of popped messages share."""

from dataclasses import dataclass

from kerolox.broker.pop.checkpoints import ReviveLog
from kerolox.broker.pop.in_flight import InFlightCounts
from kerolox.broker.pop.metrics import PopMetrics
from kerolox.broker.pop.order_info import OrderInfos
from kerolox.broker.pop.pop_offsets import PopOffsets


@dataclass(frozen=True)
class PopParts:
    offsets: PopOffsets
    orders: OrderInfos
    in_flight: InFlightCounts
    revive_log: ReviveLog
    metrics: PopMetrics
