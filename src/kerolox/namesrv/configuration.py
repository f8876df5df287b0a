"""The NameServer's settings, under the keys of RocketMQ's NamesrvConfig and NettyServerConfig."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from kerolox.errors import ConfigurationError
from kerolox.remoting.limits import Limits
from kerolox.remoting.tls import ClientAuth, ServerTls, TlsFiles, TlsMode
from kerolox.runtime.configuration import Properties, bounded, changeable, named


def _home(name: str) -> Path:
    return Path.home() / "namesrv" / name


@dataclass(slots=True)
class NamesrvConfig(Properties):
    """What is not marked changeable can be set in a file or on the command line only, never over the wire."""

    # Where to listen. The original binds 0.0.0.0; we open up only when told to.
    bind_address: str = "127.0.0.1"
    listen_port: int = bounded(9876, 0, 65535)
    server_socket_backlog: int = bounded(1024, 1, 65535)
    server_channel_max_idle_time_seconds: int = bounded(120, 1, 86_400)

    # Files
    rocketmq_home: str = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))
    kv_config_path: Path = field(default_factory=lambda: _home("kvConfig.json"))
    config_store_path: Path = field(default_factory=lambda: _home("namesrv.properties"))

    # Behaviour
    order_message_enable: bool = changeable(False)
    return_order_topic_config_to_broker: bool = changeable(True)
    support_acting_master: bool = changeable(False)
    notify_min_broker_id_changed: bool = changeable(False)
    enable_all_topic_list: bool = changeable(True)
    enable_topic_list: bool = changeable(True)
    need_wait_for_service: bool = changeable(False)
    wait_seconds_for_service: int = changeable(45, 0, 86_400)
    delete_topic_with_broker_registration: bool = changeable(False)
    scan_not_active_broker_interval: int = changeable(5000, 10, 600_000)
    # Requests that may wait for the disk at once; the next is answered SYSTEM_BUSY.
    default_thread_pool_queue_capacity: int = bounded(10_000, 1, 1_000_000)
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"

    # Bounds the original does not have
    broker_nums_max: int = 10_000
    topic_nums_max: int = 1_000_000
    kv_config_bytes_max: int = 4 * 1024 * 1024
    connection_requests_max: int = 10_000
    partial_frame_time_seconds: int = bounded(30, 1, 3600)
    partial_frame_bytes_max: int = 256 * 1024 * 1024

    # TLS, under the names of the original's system properties
    tls_server_mode: TlsMode = named("tls.server.mode", TlsMode.PERMISSIVE)
    tls_server_cert_path: Path | None = named("tls.server.certPath", None)
    tls_server_key_path: Path | None = named("tls.server.keyPath", None)
    tls_server_key_password: str | None = named("tls.server.keyPassword", None)
    tls_server_trust_cert_path: Path | None = named("tls.server.trustCertPath", None)
    tls_server_need_client_auth: ClientAuth = named("tls.server.need.client.auth", ClientAuth.NONE)

    # Accepted and echoed so that files and tools written for the original keep working; they tune threads,
    # pools and features that are not here.
    product_env_name: str = "center"
    cluster_test: bool = False
    enable_controller_in_namesrv: bool = False
    client_request_thread_pool_nums: int = 8
    client_request_thread_pool_queue_capacity: int = 50_000
    default_thread_pool_nums: int = 16
    un_register_broker_queue_capacity: int = 3000
    server_worker_threads: int = 8
    server_callback_executor_threads: int = 0
    server_selector_threads: int = 3
    server_oneway_semaphore_value: int = 256
    server_async_semaphore_value: int = 64
    server_socket_snd_buf_size: int = 0
    server_socket_rcv_buf_size: int = 0
    write_buffer_high_water_mark: int = 0
    write_buffer_low_water_mark: int = 0
    server_netty_worker_group_enable: bool = True
    server_pooled_byte_buf_allocator_enable: bool = True
    enable_shutdown_gracefully: bool = False
    shutdown_wait_time_seconds: int = 30
    use_epoll_native_selector: bool = False

    def limits(self) -> Limits:
        return Limits(
            idle_seconds=self.server_channel_max_idle_time_seconds,
            requests_in_flight_max=self.connection_requests_max,
            partial_frame_seconds=self.partial_frame_time_seconds,
            partial_bytes_max=self.partial_frame_bytes_max,
        )

    def server_tls(self) -> ServerTls | None:
        if self.tls_server_cert_path is None or self.tls_server_key_path is None:
            if self.tls_server_cert_path is not self.tls_server_key_path:
                raise ConfigurationError("tls.server.certPath and tls.server.keyPath are both needed, or neither")
            return None
        return ServerTls(
            TlsFiles(
                certificate=self.tls_server_cert_path,
                key=self.tls_server_key_path,
                key_password=self.tls_server_key_password,
                trust=self.tls_server_trust_cert_path,
                client_auth=self.tls_server_need_client_auth,
            )
        )
