"""The blocking admin client, for code without an event loop, with the same names as in `kerolox.admin`.

with AdminClient(namesrv_addr="127.0.0.1:9876") as admin:
    admin.topics.create("orders")
"""

from typing import Unpack

from kerolox import admin as aio
from kerolox.admin import (
    AccountRefused,
    AdminError,
    BrokerStatus,
    Election,
    GroupSummary,
    MessageNotFound,
    PartlyDone,
    Progress,
    QueueProgress,
    Track,
    TrackType,
    Traffic,
    UnknownBroker,
    UnknownCluster,
)
from kerolox.admin.auth import AccessLists as AsyncAccessLists
from kerolox.admin.auth import Policies as AsyncPolicies
from kerolox.admin.auth import Users as AsyncUsers
from kerolox.admin.cluster import Clusters as AsyncClusters
from kerolox.admin.config import Configuration as AsyncConfiguration
from kerolox.admin.connections import Connections as AsyncConnections
from kerolox.admin.controllers import Controllers as AsyncControllers
from kerolox.admin.groups import Groups as AsyncGroups
from kerolox.admin.messages import Messages as AsyncMessages
from kerolox.admin.messages import Traces as AsyncTraces
from kerolox.admin.messages import Tracks as AsyncTracks
from kerolox.admin.offsets import Offsets as AsyncOffsets
from kerolox.admin.queues import Queues as AsyncQueues
from kerolox.admin.statistics import Statistics as AsyncStatistics
from kerolox.admin.topics import Topics as AsyncTopics
from kerolox.client.blocking.facade import Blocking, Client, blocks, iterates
from kerolox.client.options import Options, Shared

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


class AdminClient(Client[aio.AdminClient]):
    """The tasks of `mqadmin`, grouped by subject, for brokers and NameServers of 4.9 and 5.x.

        with AdminClient(namesrv_addr="127.0.0.1:9876") as admin:
            admin.topics.create("orders", write_queues=16, read_queues=16)
            print(admin.offsets.progress("shop").lag)

    Names include the namespace (`namespace%orders`). PartlyDone is raised if only some of several servers succeed.
    """

    def __init__(
        self, *, options: Options | None = None, timeout_seconds: float = 5.0, **keywords: Unpack[Shared]
    ) -> None:
        inner = aio.AdminClient(options=options, timeout_seconds=timeout_seconds, **keywords)
        super().__init__(inner)
        self.options = inner.options
        self.configuration = Configuration(inner.configuration)
        self.cluster = Clusters(inner.cluster)
        self.controllers = Controllers(inner.controllers)
        self.topics = Topics(inner.topics)
        self.groups = Groups(inner.groups)
        self.queues = Queues(inner.queues)
        self.connections = Connections(inner.connections)
        self.offsets = Offsets(inner.offsets)
        self.messages = Messages(inner.messages)
        self.tracks = Tracks(inner.tracks)
        self.traces = Traces(inner.traces)
        self.users = Users(inner.users)
        self.policies = Policies(inner.policies)
        self.access = AccessLists(inner.access)
        self.statistics = Statistics(inner.statistics)

    start = blocks(aio.AdminClient.start)
    close = blocks(aio.AdminClient.close)


class Configuration(Blocking[AsyncConfiguration]):
    broker = blocks(AsyncConfiguration.broker)
    update_broker = blocks(AsyncConfiguration.update_broker)
    name_servers = blocks(AsyncConfiguration.name_servers)
    update_name_servers = blocks(AsyncConfiguration.update_name_servers)
    kv = blocks(AsyncConfiguration.kv)
    kv_table = blocks(AsyncConfiguration.kv_table)
    set_kv = blocks(AsyncConfiguration.set_kv)
    delete_kv = blocks(AsyncConfiguration.delete_kv)


class Clusters(Blocking[AsyncClusters]):
    info = blocks(AsyncClusters.info)
    brokers = blocks(AsyncClusters.brokers)
    runtime_info = blocks(AsyncClusters.runtime_info)
    ha_status = blocks(AsyncClusters.ha_status)
    reset_master_flush_offset = blocks(AsyncClusters.reset_master_flush_offset)
    wipe_write_permission = blocks(AsyncClusters.wipe_write_permission)
    add_write_permission = blocks(AsyncClusters.add_write_permission)
    clean_expired_queues = blocks(AsyncClusters.clean_expired_queues)
    clean_unused_topics = blocks(AsyncClusters.clean_unused_topics)
    delete_expired_commit_log = blocks(AsyncClusters.delete_expired_commit_log)


class Controllers(Blocking[AsyncControllers]):
    metadata = blocks(AsyncControllers.metadata)
    sync_state = blocks(AsyncControllers.sync_state)
    broker_epochs = blocks(AsyncControllers.broker_epochs)
    elect_master = blocks(AsyncControllers.elect_master)
    clean_broker_data = blocks(AsyncControllers.clean_broker_data)
    configs = blocks(AsyncControllers.configs)
    update_configs = blocks(AsyncControllers.update_configs)


class Topics(Blocking[AsyncTopics]):
    create = blocks(AsyncTopics.create)
    update = blocks(AsyncTopics.update)
    delete = blocks(AsyncTopics.delete)
    names = blocks(AsyncTopics.names)
    system_names = blocks(AsyncTopics.system_names)
    route = blocks(AsyncTopics.route)
    clusters = blocks(AsyncTopics.clusters)
    configs = blocks(AsyncTopics.configs)
    all_configs = blocks(AsyncTopics.all_configs)
    table = blocks(AsyncTopics.table)
    status = blocks(AsyncTopics.status)
    groups = blocks(AsyncTopics.groups)
    order = blocks(AsyncTopics.order)
    set_order = blocks(AsyncTopics.set_order)


class Groups(Blocking[AsyncGroups]):
    create = blocks(AsyncGroups.create)
    update = blocks(AsyncGroups.update)
    delete = blocks(AsyncGroups.delete)
    set_readable = blocks(AsyncGroups.set_readable)
    set_request_mode = blocks(AsyncGroups.set_request_mode)
    names = blocks(AsyncGroups.names)
    configs = blocks(AsyncGroups.configs)
    all_configs = blocks(AsyncGroups.all_configs)
    table = blocks(AsyncGroups.table)
    topics = blocks(AsyncGroups.topics)


class Queues(Blocking[AsyncQueues]):
    min_offset = blocks(AsyncQueues.min_offset)
    max_offset = blocks(AsyncQueues.max_offset)
    search = blocks(AsyncQueues.search)
    earliest_millis = blocks(AsyncQueues.earliest_millis)
    entries = blocks(AsyncQueues.entries)
    min_at = blocks(AsyncQueues.min_at)
    max_at = blocks(AsyncQueues.max_at)
    search_at = blocks(AsyncQueues.search_at)


class Connections(Blocking[AsyncConnections]):
    consumers = blocks(AsyncConnections.consumers)
    producers = blocks(AsyncConnections.producers)
    all_producers = blocks(AsyncConnections.all_producers)
    running_info = blocks(AsyncConnections.running_info)
    running_infos = blocks(AsyncConnections.running_infos)
    offsets = blocks(AsyncConnections.offsets)


class Offsets(Blocking[AsyncOffsets]):
    progress = blocks(AsyncOffsets.progress)
    summaries = blocks(AsyncOffsets.summaries)
    broker_progress = blocks(AsyncOffsets.broker_progress)
    time_spans = blocks(AsyncOffsets.time_spans)
    committed = blocks(AsyncOffsets.committed)
    commit = blocks(AsyncOffsets.commit)
    reset = blocks(AsyncOffsets.reset)
    roll_back = blocks(AsyncOffsets.roll_back)
    skip_accumulated = blocks(AsyncOffsets.skip_accumulated)
    reset_queue = blocks(AsyncOffsets.reset_queue)
    clone = blocks(AsyncOffsets.clone)


class Messages(Blocking[AsyncMessages]):
    by_id = blocks(AsyncMessages.by_id)
    by_unique_key = blocks(AsyncMessages.by_unique_key)
    by_key = blocks(AsyncMessages.by_key)
    by_tag = blocks(AsyncMessages.by_tag)
    at = blocks(AsyncMessages.at)
    pull = blocks(AsyncMessages.pull)
    read = iterates(AsyncMessages.read)
    read_topic = iterates(AsyncMessages.read_topic)
    consume_directly = blocks(AsyncMessages.consume_directly)
    resume_check = blocks(AsyncMessages.resume_check)


class Tracks(Blocking[AsyncTracks]):
    of_message = blocks(AsyncTracks.of_message)


class Traces(Blocking[AsyncTraces]):
    of_message = blocks(AsyncTraces.of_message)
    by_key = blocks(AsyncTraces.by_key)


class Users(Blocking[AsyncUsers]):
    create = blocks(AsyncUsers.create)
    update = blocks(AsyncUsers.update)
    delete = blocks(AsyncUsers.delete)
    find = blocks(AsyncUsers.find)
    matching = blocks(AsyncUsers.matching)


class Policies(Blocking[AsyncPolicies]):
    create = blocks(AsyncPolicies.create)
    update = blocks(AsyncPolicies.update)
    delete = blocks(AsyncPolicies.delete)
    find = blocks(AsyncPolicies.find)
    matching = blocks(AsyncPolicies.matching)


class AccessLists(Blocking[AsyncAccessLists]):
    update = blocks(AsyncAccessLists.update)
    delete = blocks(AsyncAccessLists.delete)
    set_white_addresses = blocks(AsyncAccessLists.set_white_addresses)
    versions = blocks(AsyncAccessLists.versions)


class Statistics(Blocking[AsyncStatistics]):
    of_broker = blocks(AsyncStatistics.of_broker)
    all = blocks(AsyncStatistics.all)
    of_topic = blocks(AsyncStatistics.of_topic)
