"""What operators do: topics, groups, offsets, the cluster, messages, settings and connections, as typed methods.

async with AdminClient(namesrv_addr="127.0.0.1:9876") as admin:
    await admin.topics.create("orders")
"""

from kerolox.admin.client import AdminClient
from kerolox.admin.cluster import BrokerStatus
from kerolox.admin.errors import AccountRefused, AdminError, MessageNotFound, PartlyDone, UnknownBroker, UnknownCluster
from kerolox.admin.progress import GroupSummary, Progress, QueueProgress
from kerolox.admin.statistics import Traffic
from kerolox.admin.tracks import Track, TrackType

__all__ = [
    "AccountRefused",
    "AdminClient",
    "AdminError",
    "BrokerStatus",
    "GroupSummary",
    "MessageNotFound",
    "PartlyDone",
    "Progress",
    "QueueProgress",
    "Track",
    "TrackType",
    "Traffic",
    "UnknownBroker",
    "UnknownCluster",
]
