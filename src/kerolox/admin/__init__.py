"""The admin client: operator tasks on topics, groups, offsets, clusters, messages, settings and connections.

async with AdminClient(namesrv_addr="127.0.0.1:9876") as admin:
    await admin.topics.create("orders")
"""

from kerolox.admin.client import AdminClient
from kerolox.admin.cluster import BrokerStatus
from kerolox.admin.controllers import Election
from kerolox.admin.errors import AccountRefused, AdminError, MessageNotFound, PartlyDone, UnknownBroker, UnknownCluster
from kerolox.admin.messages import Track, TrackType
from kerolox.admin.offsets import GroupSummary, Progress, QueueProgress
from kerolox.admin.statistics import Traffic

__all__ = [
    "AccountRefused",
    "AdminClient",
    "AdminError",
    "BrokerStatus",
    "Election",
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
