"""A broker's settings: the four objects of the original, fed from one file."""

import os
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any

from kerolox.errors import ConfigurationError
from kerolox.remoting.configuration import ListenerConfig
from kerolox.runtime.configuration import Properties, bounded, changeable, named
from kerolox.store.configuration import StoreConfig

MASTER_ID = 0
# By which the original is told whether it waits for its slaves, or is one.
_ROLE, _ALONE = "brokerRole", "ASYNC_MASTER"
# By which the original, of 4.x and of 5.x, is told to ask clients who they are.
_ACCESS = ("aclEnable", "authenticationEnabled", "authorizationEnabled")
# By which it is told to keep copies elsewhere: switches, and numbers of copies that a message must have.
_COPIES = ("enableDLegerCommitLog", "enableControllerMode", "allAckInSyncStateSet", "duplicationEnable")
_COPY_NUMBERS = ("inSyncReplicas", "minInSyncReplicas", "totalReplicas")


@dataclass(slots=True)
class BrokerConfig(Properties):
    """Under the keys of BrokerConfig and BrokerIdentity."""

    rocketmq_home: str = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))
    namesrv_addr: str | None = field(default_factory=lambda: os.environ.get("NAMESRV_ADDR"))

    # Who it is
    broker_name: str = field(default_factory=lambda: _host_name() or "DEFAULT_BROKER")
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = bounded(MASTER_ID, 0, 2**31 - 1)
    # What clients are told to connect to. The original guesses an address of the machine.
    broker_ip1: str = named("brokerIP1", "127.0.0.1")
    broker_ip2: str = named("brokerIP2", "127.0.0.1")
    region_id: str = "DefaultRegion"
    broker_permission: int = changeable(6, 0, 6)

    # Registration
    register_broker_timeout_mills: int = changeable(24_000, 100, 600_000)
    register_name_server_period: int = changeable(30_000, 10_000, 60_000)
    force_register: bool = changeable(True)
    compressed_register: bool = changeable(False)
    enable_split_registration: bool = changeable(False)
    # A NameServer of 5.x refuses to begin with a single topic.
    split_registration_size: int = changeable(800, 2, 1_000_000)
    # The original sends light heartbeats only to acting masters; sent always, a frozen broker is missed soon.
    broker_heartbeat_interval: int = changeable(1000, 100, 60_000)
    broker_not_active_timeout_millis: int = changeable(10_000, 1000, 600_000)
    fetch_namesrv_addr_by_address_server: bool = False

    # Topics and groups
    auto_create_topic_enable: bool = changeable(True)
    default_topic_queue_nums: int = changeable(8, 1, 1024)
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: bool = changeable(True)
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    trace_on: bool = changeable(True)
    validate_system_topic_when_update_topic: bool = changeable(True)
    enable_mixed_message_type: bool = changeable(False)
    clear_retry_topic_when_delete_topic: bool = changeable(True)
    # How many topics or groups one answer has to who asks for a part of them.
    enable_split_metadata: bool = changeable(True)
    split_metadata_size: int = changeable(2000, 1, 1_000_000)
    # Bounds the original does not have.
    topic_nums_max: int = 100_000
    group_nums_max: int = 100_000
    topic_queue_nums_max: int = bounded(65_536, 1, 1_000_000)

    # Sending
    start_accept_send_request_time_stamp: int = 0
    send_thread_pool_queue_capacity: int = bounded(10_000, 1, 1_000_000)
    reply_thread_pool_queue_capacity: int = bounded(10_000, 1, 1_000_000)
    end_transaction_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    wait_time_mills_in_send_queue: int = changeable(200, 1, 600_000)
    reject_transaction_message: bool = changeable(False)
    store_reply_message_enable: bool = changeable(True)
    recall_message_enable: bool = changeable(False)

    # Pulling
    long_polling_enable: bool = changeable(True)
    short_polling_time_mills: int = changeable(1000, 10, 60_000)
    pull_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    lite_pull_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    ack_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    query_thread_pool_queue_capacity: int = bounded(20_000, 1, 1_000_000)
    slave_read_enable: bool = changeable(False)
    enable_property_filter: bool = changeable(False)
    enable_calc_filter_bit_map: bool = False
    expect_consumer_num_use_filter: int = bounded(32, 1, 10_000)
    max_error_rate_of_bloom_filter: int = bounded(20, 1, 99)
    filter_data_clean_time_span: int = changeable(24 * 3600 * 1000, 1000, 2**63 - 1)
    filter_support_retry: bool = changeable(False)
    # A bound of our own: about how many bytes the expressions of all consumers may take, compiled as they are.
    expression_bytes_max: int = bounded(64 * 1024 * 1024, 1024, 2**40)
    lite_pull_message_enable: bool = changeable(True)
    disable_consume_if_consumer_read_slowly: bool = changeable(False)
    consumer_fallbehind_threshold: int = bounded(16 * 1024**3, 0, 2**63 - 1)
    default_message_request_mode: str = "PULL"

    # Consumers' progress
    flush_consumer_offset_interval: int = bounded(5000, 100, 600_000)
    use_server_side_reset_offset: bool = changeable(True)
    notify_consumer_ids_changed_enable: bool = changeable(True)
    channel_expired_timeout: int = bounded(120_000, 1000, 3_600_000)
    heartbeat_thread_pool_queue_capacity: int = bounded(50_000, 1, 1_000_000)
    client_manager_thread_pool_queue_capacity: int = bounded(1_000_000, 1, 10_000_000)
    consumer_manager_thread_pool_queue_capacity: int = bounded(1_000_000, 1, 10_000_000)
    load_balance_thread_pool_queue_capacity: int = bounded(100_000, 1, 1_000_000)
    admin_broker_thread_pool_queue_capacity: int = bounded(10_000, 1, 1_000_000)

    # Transactions
    transaction_time_out: int = named("transactionTimeOut", 6000)
    transaction_check_max: int = changeable(15, 1, 1000)
    transaction_check_interval: int = changeable(30_000, 100, 3_600_000)
    transaction_op_batch_interval: int = changeable(3000, 1, 60_000)
    transaction_op_msg_max_size: int = changeable(4096, 64, 1024 * 1024)

    # Popping
    revive_queue_num: int = bounded(8, 1, 1024)
    pop_polling_size: int = bounded(1024, 1, 1_000_000)
    pop_polling_map_size: int = bounded(100_000, 1, 10_000_000)
    pop_from_retry_probability: int = changeable(20, 0, 100)
    enable_retry_topic_v2: bool = changeable(False)
    retrieve_message_from_pop_retry_topic_v1: bool = changeable(True)
    max_pop_polling_size: int = bounded(100_000, 1, 10_000_000)
    revive_interval: int = changeable(1000, 10, 60_000)
    init_pop_offset_by_check_msg_in_mem: bool = changeable(True)
    pop_response_return_actual_retry_topic: bool = changeable(False)
    enable_pop_message_threshold: bool = changeable(False)
    pop_inflight_message_threshold: int = changeable(10_000, 1, 2**31 - 1)
    default_pop_share_queue_num: int = changeable(-1, -1, 1_000_000)
    server_load_balancer_enable: bool = changeable(True)

    config_black_list: str = "configBlackList;brokerConfigPath"
    # Where changes over the wire are kept: the file the broker was started with.
    config_store_path: Path | None = named("brokerConfigPath", None)


@dataclass(slots=True)
class ServerConfig(ListenerConfig):
    """Under the keys of NettyServerConfig."""

    listen_port: int = bounded(10911, 0, 65535)


@dataclass(slots=True)
class ClientConfig(Properties):
    """Under the keys of NettyClientConfig: how the broker connects to NameServers."""

    connect_timeout_millis: int = bounded(3000, 1, 600_000)


@dataclass(slots=True)
class Settings:
    """All four; a key goes to whoever declares it, and what nobody does is kept by the first."""

    broker: BrokerConfig = field(default_factory=BrokerConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    store: StoreConfig = field(default_factory=StoreConfig)

    @property
    def parts(self) -> tuple[Properties, ...]:
        return self.broker, self.server, self.client, self.store

    def update(self, properties: Mapping[str, str]) -> None:
        """Takes over every setting, or none if one of them cannot be used."""
        for part in self.parts:
            part.check(properties)
        known: set[str] = set()
        for part in self.parts[1:]:
            keys = part.keys()
            part.update({key: text for key, text in properties.items() if key in keys})
            known |= keys.keys() - self.broker.keys().keys()
        self.broker.update({key: text for key, text in properties.items() if key not in known})

    def keys(self) -> dict[str, "Field[Any]"]:
        """Returns each declared field under its key."""
        found: dict[str, Field[Any]] = {}
        for part in reversed(self.parts):
            found |= part.keys()
        return found

    def refuse_pretence(self) -> None:
        """ConfigurationError if it is to keep people out, or copies, in a way that this broker does not have."""
        for key in _ACCESS:
            if self.broker.extra.get(key, "").strip().lower() == "true":
                raise ConfigurationError(
                    f"{key}=true cannot be had: this broker has no access control, and would let everybody in; "
                    "remove it, and keep others out by bindAddress, a firewall or tls.server.need.client.auth=require"
                )

        role, broker_id = self.broker.extra.get(_ROLE, _ALONE).strip(), self.broker.broker_id
        if role != _ALONE or broker_id != MASTER_ID:
            told = f"brokerId={broker_id}" if role == _ALONE else f"{_ROLE}={role}"
            raise ConfigurationError(
                f"{told} cannot be had: this broker is a master alone, and neither makes copies nor is one; set "
                f"{_ROLE}={_ALONE} and brokerId={MASTER_ID}, give each broker its own brokerName, and for a second "
                "copy use a disk that has one"
            )
        for key, harmless in {**dict.fromkeys(_COPIES, "false"), **dict.fromkeys(_COPY_NUMBERS, "1")}.items():
            text = self.broker.extra.get(key, harmless).strip()
            if text.lower() not in ("", harmless):
                raise ConfigurationError(
                    f"{key}={text} cannot be had: this broker is a master alone, and keeps its messages in one store; "
                    f"remove it or set {key}={harmless}, and for a second copy use a disk that has one"
                )

    def to_properties(self) -> dict[str, str]:
        merged: dict[str, str] = {}
        for part in reversed(self.parts):
            merged |= part.to_properties()
        return dict(sorted(merged.items()))


def _host_name() -> str:
    return socket.gethostname().partition(".")[0]
