"""The settings of a broker: groups as in Java, and one for replication, read from one properties file."""

import os
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any

from kerolox.errors import ConfigurationError
from kerolox.remoting.config import ListenerConfig
from kerolox.remoting.tls import TlsMode
from kerolox.replication.config import ReplicationConfig
from kerolox.runtime.config import Properties, bounded, changeable, named
from kerolox.store.config import BrokerRole, StoreConfig

MASTER_ID = 0
# Keys of features that this broker does not have; `refuse_unsupported` rejects values that would enable them.
_ACCESS_CONTROL_KEYS = ("aclEnable", "authenticationEnabled", "authorizationEnabled")
_REPLICATION_KEYS = (
    "enableDLegerCommitLog",
    "enableControllerMode",
    "enableSlaveActingMaster",
    "allAckInSyncStateSet",
    "duplicationEnable",
)


@dataclass(slots=True)
class BrokerConfig(Properties):
    """Settings with the keys of Java's BrokerConfig and BrokerIdentity; the comments are shown in the reference."""

    # Has no effect.
    rocketmq_home: str = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))
    # NameServers to register with, such as `10.0.0.1:9876;10.0.0.2:9876`.
    namesrv_addr: str | None = field(default_factory=lambda: os.environ.get("NAMESRV_ADDR"))

    # Identity

    # A master and its slaves have the same name and form a group; other brokers of a cluster have other names.
    broker_name: str = field(default_factory=lambda: _host_name() or "DEFAULT_BROKER")
    broker_cluster_name: str = "DefaultCluster"
    # 0 is the master, and a master always has it; each slave of a group needs an id of its own.
    broker_id: int = bounded(MASTER_ID, 0, 2**31 - 1)
    # The IP address at which clients reach the broker. RocketMQ guesses one of the machine's addresses instead.
    broker_ip1: str = named("brokerIP1", "127.0.0.1")
    # The IP address at which slaves reach the broker, registered with NameServers together with haListenPort.
    broker_ip2: str = named("brokerIP2", "127.0.0.1")
    # Returned to producers, whose traces contain it.
    region_id: str = "DefaultRegion"
    # 2 allows sending, 4 allows consuming, 6 allows both.
    broker_permission: int = changeable(6, 0, 6)

    # Registration

    # Timeout of a registration, in milliseconds.
    register_broker_timeout_mills: int = changeable(24_000, 100, 600_000)
    # Interval of registrations, in milliseconds.
    register_name_server_period: int = changeable(30_000, 10_000, 60_000)
    # Whether periodic registrations are sent even if the NameServer already has the current version of the topics.
    force_register: bool = changeable(True)
    # Whether registrations are compressed.
    compressed_register: bool = changeable(False)
    # Whether a registration of many topics is split into several requests.
    enable_split_registration: bool = changeable(False)
    # Whether a new or changed topic is registered alone, with REGISTER_TOPIC_IN_NAMESRV, at NameServers of 5.x. If not,
    # all topics are registered again.
    enable_single_topic_register: bool = changeable(False)
    # Topics per request of a split registration; at least 2, because a NameServer of 5.x rejects a first registration
    # with a single topic.
    split_registration_size: int = changeable(800, 2, 1_000_000)
    # Interval of light heartbeats to NameServers of 5.x, in milliseconds. RocketMQ sends them only with
    # enableSlaveActingMaster; here they are always sent, so that clients soon notice a broker that hangs.
    broker_heartbeat_interval: int = changeable(1000, 100, 60_000)
    # Time without a light heartbeat after which NameServers of 5.x remove the broker, in milliseconds.
    broker_not_active_timeout_millis: int = changeable(10_000, 1000, 600_000)
    # Has no effect.
    fetch_namesrv_addr_by_address_server: bool = False

    # Topics and groups

    # Whether sending to an unknown topic creates it.
    auto_create_topic_enable: bool = changeable(True)
    # Queues of the template topic TBW102, and so the largest number of queues of an automatically created topic.
    default_topic_queue_nums: int = changeable(8, 1, 1024)
    # Whether clients may use the topic that is named after the cluster.
    cluster_topic_enable: bool = True
    # Whether clients may use the topic that is named after the broker.
    broker_topic_enable: bool = True
    # Whether consuming with an unknown group creates it.
    auto_create_subscription_group: bool = changeable(True)
    # Whether the broker creates the topic for traces, msgTraceTopicName.
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    # Tells producers whether to trace their messages.
    trace_on: bool = changeable(True)
    # Whether operators are kept from changing system topics.
    validate_system_topic_when_update_topic: bool = changeable(True)
    # Whether topics may have the attribute `message.type=MIXED`.
    enable_mixed_message_type: bool = changeable(False)
    # Whether deleting a topic deletes the retry topics of its pop consumers too.
    clear_retry_topic_when_delete_topic: bool = changeable(True)
    # Whether tools may request the tables of topics and groups in pages.
    enable_split_metadata: bool = changeable(True)
    # Largest number of topics or groups in a page.
    split_metadata_size: int = changeable(2000, 1, 1_000_000)
    # Largest number of topics; RocketMQ has no limit.
    topic_nums_max: int = 100_000
    # Largest number of consumer groups; RocketMQ has no limit.
    group_nums_max: int = 100_000
    # Largest number of queues of a topic; RocketMQ has no limit.
    topic_queue_nums_max: int = bounded(65_536, 1, 1_000_000)

    # Sending

    # Sends before this time, in milliseconds since 1970, are rejected.
    start_accept_send_request_time_stamp: int = bounded(0, 0, 2**63 - 1)
    # Largest number of sends in progress; further ones get SYSTEM_BUSY.
    send_thread_pool_queue_capacity: int = bounded(10_000, 1, 1_000_000)
    # Largest number of request-reply responses in progress.
    reply_thread_pool_queue_capacity: int = bounded(10_000, 1, 1_000_000)
    # Largest number of commits and rollbacks of transactions in progress.
    end_transaction_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    # How long a send waits for the next file of the commit log, in milliseconds, before it gets SYSTEM_BUSY.
    wait_time_mills_in_send_queue: int = changeable(200, 1, 600_000)
    # Whether transaction messages are rejected.
    reject_transaction_message: bool = changeable(False)
    # Whether request-reply responses are stored in addition to being delivered.
    store_reply_message_enable: bool = changeable(True)
    # Whether producers may recall messages with a delivery time.
    recall_message_enable: bool = changeable(False)

    # Pulling

    # Whether a pull that finds nothing waits for messages as long as the consumer asks.
    long_polling_enable: bool = changeable(True)
    # How long a pull that finds nothing waits without longPollingEnable, in milliseconds.
    short_polling_time_mills: int = changeable(1000, 10, 60_000)
    # Largest number of pulls and pops in progress, without those that wait for messages.
    pull_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    # Largest number of pulls of lite pull consumers in progress, without those that wait for messages.
    lite_pull_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    # Largest number of acknowledgements of pop consumers in progress.
    ack_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    # Largest number of queries of messages by key or offset in progress.
    query_thread_pool_queue_capacity: int = bounded(20_000, 1, 1_000_000)
    # Whether consumers are told which broker of the group to pull from: a group's whichBrokerWhenConsumeSlowly if it is
    # far behind, else its brokerId. If not, they are always told to pull from the master.
    slave_read_enable: bool = changeable(False)
    # Whether consumers may filter by SQL92 expressions.
    enable_property_filter: bool = changeable(False)
    # Whether a bit map of the matching expressions is stored for each message, which makes filtering cheaper.
    enable_calc_filter_bit_map: bool = False
    # Expected number of groups with an expression per topic; determines the size of the bit maps.
    expect_consumer_num_use_filter: int = bounded(32, 1, 10_000)
    # Error rate of the bit maps, in percent.
    max_error_rate_of_bloom_filter: int = bounded(20, 1, 99)
    # How long the expression of a group without members is kept, in milliseconds.
    filter_data_clean_time_span: int = changeable(24 * 3600 * 1000, 1000, 2**63 - 1)
    # Whether a group's expression is applied to its retries too.
    filter_support_retry: bool = changeable(False)
    # Approximate memory that the compiled expressions of all groups may take, in bytes; RocketMQ has no limit.
    expression_bytes_max: int = bounded(64 * 1024 * 1024, 1024, 2**40)
    # Whether lite pull consumers are served.
    lite_pull_message_enable: bool = changeable(True)
    # Whether groups that are further behind than consumerFallbehindThreshold are forbidden to consume.
    disable_consume_if_consumer_read_slowly: bool = changeable(False)
    # In bytes between the last pulled message and the end of the commit log.
    consumer_fallbehind_threshold: int = bounded(16 * 1024**3, 0, 2**63 - 1)
    # `PULL` or `POP`, for groups whose mode is not set with setConsumeMode.
    default_message_request_mode: str = "PULL"

    # Offsets and clients

    # Interval at which consumer offsets are saved, in milliseconds.
    flush_consumer_offset_interval: int = bounded(5000, 100, 600_000)
    # Whether offsets are reset on the broker, so that groups without connected consumers can be reset too.
    use_server_side_reset_offset: bool = changeable(True)
    # Whether consumers are notified when a member joins or leaves their group.
    notify_consumer_ids_changed_enable: bool = changeable(True)
    # Time without a heartbeat after which a client is disconnected, in milliseconds.
    channel_expired_timeout: int = bounded(120_000, 1000, 3_600_000)
    # Largest number of heartbeats in progress.
    heartbeat_thread_pool_queue_capacity: int = bounded(50_000, 1, 1_000_000)
    # Largest number of other requests about clients in progress.
    client_manager_thread_pool_queue_capacity: int = bounded(1_000_000, 1, 10_000_000)
    # Largest number of requests about consumer offsets and group members in progress.
    consumer_manager_thread_pool_queue_capacity: int = bounded(1_000_000, 1, 10_000_000)
    # Largest number of requests for queue assignments in progress.
    load_balance_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    # Largest number of all other requests in progress.
    admin_broker_thread_pool_queue_capacity: int = bounded(10_000, 1, 1_000_000)

    # Transactions

    # Time after which a transaction without a result is checked, in milliseconds.
    transaction_time_out: int = named("transactionTimeOut", 6000)
    # Number of checks without a result after which a transaction is given up.
    transaction_check_max: int = changeable(15, 1, 1000)
    # Interval of checks, in milliseconds.
    transaction_check_interval: int = changeable(30_000, 100, 3_600_000)
    # Interval at which commits and rollbacks are recorded together in the op queue, in milliseconds.
    transaction_op_batch_interval: int = changeable(3000, 1, 60_000)
    # Size in bytes at which such a record is written before the interval ends.
    transaction_op_msg_max_size: int = changeable(4096, 64, 1024 * 1024)

    # Pop consumption

    # Queues of the revive topic, which stores checkpoints and acknowledgements.
    revive_queue_num: int = bounded(8, 1, 1024)
    # Largest number of pops that wait for messages of the same topic, group and queue.
    pop_polling_size: int = bounded(1024, 1, 1_000_000)
    # Largest number of pops that wait in total: the smaller value of this and maxPopPollingSize.
    pop_polling_map_size: int = bounded(100_000, 1, 10_000_000)
    # Percentage of pops that look for retries first; the others look for them last.
    pop_from_retry_probability: int = changeable(20, 0, 100)
    # Whether retries go to topics named `%RETRY%group+topic` instead of `%RETRY%group_topic`.
    enable_retry_topic_v2: bool = changeable(False)
    # With enableRetryTopicV2, whether retries in topics of the old name are delivered too.
    retrieve_message_from_pop_retry_topic_v1: bool = changeable(True)
    # Largest number of pops that wait in total: the smaller value of this and popPollingMapSize.
    max_pop_polling_size: int = bounded(100_000, 1, 10_000_000)
    # Interval at which messages that were not acknowledged in time are delivered again, in milliseconds.
    revive_interval: int = changeable(1000, 10, 60_000)
    # Whether a new group starts with the first message of a queue, not with the last, if the first is still in memory.
    init_pop_offset_by_check_msg_in_mem: bool = changeable(True)
    # Whether pop responses contain retries under the name of their retry topic instead of their original topic.
    pop_response_return_actual_retry_topic: bool = changeable(False)
    # Whether a group gets no more messages of a queue while more than popInflightMessageThreshold are not acknowledged.
    enable_pop_message_threshold: bool = changeable(False)
    pop_inflight_message_threshold: int = changeable(10_000, 1, 2**31 - 1)
    # With defaultMessageRequestMode=POP, the number of group members whose queues a client consumes besides its own; -1
    # for all.
    default_pop_share_queue_num: int = changeable(-1, -1, 1_000_000)
    # Whether the broker assigns queues to consumers that ask it to; otherwise each gets all queues.
    server_load_balancer_enable: bool = changeable(True)
    # Whether a NOTIFICATION request with an expression waits for messages that match it.
    use_message_filter_for_notification: bool = changeable(True)
    # If a queue has at least this many messages, such a request is answered without checking them.
    max_message_filter_num_for_notification: int = changeable(64, 0, 4096)

    # Keys that updateBrokerConfig must not change.
    config_black_list: str = "configBlackList;brokerConfigPath"
    # The file that updateBrokerConfig saves changes to; by default the one that the broker was started with.
    config_store_path: Path | None = named("brokerConfigPath", None)


@dataclass(slots=True)
class ServerConfig(ListenerConfig):
    """Settings with the keys of Java's NettyServerConfig."""

    listen_port: int = bounded(10911, 0, 65535)


@dataclass(slots=True)
class ClientConfig(Properties):
    """Settings of connections to NameServers, with the keys of Java's NettyClientConfig."""

    # Timeout of connecting, in milliseconds.
    connect_timeout_millis: int = bounded(3000, 1, 600_000)


@dataclass(slots=True)
class Settings:
    """All settings of a broker. A key belongs to the class that declares it; `broker.extra` has unknown keys."""

    broker: BrokerConfig = field(default_factory=BrokerConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)

    @property
    def parts(self) -> tuple[Properties, ...]:
        return self.broker, self.server, self.client, self.store, self.replication

    @property
    def ha_port(self) -> int:
        """The port on which a master listens for slaves; 0, for any, if the broker itself listens on any port."""
        port = self.server.listen_port
        return self.replication.ha_listen_port or (port + 1 if port else 0)

    @property
    def ha_host(self) -> str:
        """The address on which a master listens for slaves, without TLS.

        Where clients must use TLS, other machines can connect only if haListenPort is set on purpose.
        """
        is_enforced = self.server.tls_server_mode is TlsMode.ENFORCING
        return "127.0.0.1" if is_enforced and not self.replication.ha_listen_port else self.server.bind_address

    def update(self, properties: Mapping[str, str]) -> None:
        """Apply all settings, or none of them if one is not valid."""
        for part in self.parts:
            part.check(properties)
            properties = part.renamed(properties)
        known: set[str] = set()
        for part in self.parts[1:]:
            keys = part.keys()
            part.update({key: text for key, text in properties.items() if key in keys})
            known |= keys.keys() - self.broker.keys().keys()
        self.broker.update({key: text for key, text in properties.items() if key not in known})

    def keys(self) -> dict[str, "Field[Any]"]:
        """Return all declared fields by their keys."""
        found: dict[str, Field[Any]] = {}
        for part in reversed(self.parts):
            found |= part.keys()
        return found

    @property
    def unknown(self) -> set[str]:
        """Keys without effect that were given, except those that `refuse_unsupported` checks."""
        return self.broker.extra.keys() - {*_ACCESS_CONTROL_KEYS, *_REPLICATION_KEYS}

    def refuse_unsupported(self) -> None:
        """Raise ConfigurationError if settings enable access control or a kind of replication that this broker lacks.

        Ignoring them would leave a broker open, or messages without copies, that an operator believes to be safe.
        """
        for key in _ACCESS_CONTROL_KEYS:
            if self.broker.extra.get(key, "").strip().lower() == "true":
                raise ConfigurationError(
                    f"{key}=true is not supported: this broker has no access control and would accept every client; "
                    "remove the key, and restrict access by bindAddress, a firewall or "
                    "tls.server.need.client.auth=require"
                )

        for key in _REPLICATION_KEYS:
            text = self.broker.extra.get(key, "").strip()
            if text.lower() not in ("", "false"):
                raise ConfigurationError(
                    f"{key}={text} is not supported: roles are fixed by brokerRole here; remove the key or set "
                    f"{key}=false, and run slaves (brokerRole=SLAVE) if you need copies"
                )

    def settle_identity(self) -> None:
        """Give a master the id 0, as RocketMQ does; ConfigurationError if a slave has no id of its own."""
        if self.store.broker_role is not BrokerRole.SLAVE:
            self.broker.broker_id = MASTER_ID
        elif self.broker.broker_id == MASTER_ID:
            raise ConfigurationError(
                "brokerRole=SLAVE needs a brokerId above 0, different from those of the other slaves of its brokerName"
            )

    def to_properties(self) -> dict[str, str]:
        merged: dict[str, str] = {}
        for part in reversed(self.parts):
            merged |= part.to_properties()
        return dict(sorted(merged.items()))


def _host_name() -> str:
    return socket.gethostname().partition(".")[0]
