"""The NameServer's settings, under the keys of RocketMQ's NamesrvConfig and NettyServerConfig."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from kerolox.remoting.config import ListenerConfig
from kerolox.runtime.config import bounded, changeable


def _home(name: str) -> Path:
    return Path.home() / "namesrv" / name


@dataclass(slots=True)
class NamesrvConfig(ListenerConfig):
    """Settings that are not changeable can be set only in a file or on the command line, never over the wire."""

    listen_port: int = bounded(9876, 0, 65535)

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
    # Runs a controller in the same process, with its settings in the same file.
    enable_controller_in_namesrv: bool = False

    # Limits that RocketMQ does not have
    broker_nums_max: int = 10_000
    topic_nums_max: int = 1_000_000
    # The limit for one topic on one broker; a broker has the same setting.
    topic_queue_nums_max: int = bounded(65_536, 1, 1_000_000)
    kv_config_bytes_max: int = 4 * 1024 * 1024

    # Accepted and returned, so that configuration files and tools for RocketMQ work, but without effect: they tune
    # threads, pools and features that do not exist here.
    product_env_name: str = "center"
    cluster_test: bool = False
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
