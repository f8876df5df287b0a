"""The controller's settings, under the keys of RocketMQ's ControllerConfig, JraftConfig and NettyServerConfig."""

import os
import ssl
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kerolox.errors import ConfigurationError, reason
from kerolox.remoting.address import parse_address, parse_addresses
from kerolox.remoting.config import ListenerConfig
from kerolox.runtime.config import bounded, changeable, named

_ALL_INTERFACES = ("0.0.0.0", "::", "")  # noqa: S104


class ControllerType(Enum):
    """The consensus algorithms of RocketMQ's controller; ours has none, and reads the peers of either."""

    DLEDGER = "DLedger"
    JRAFT = "jRaft"


class ControllerStorage(Enum):
    FILE = "file"
    ETCD = "etcd"


class Peers(NamedTuple):
    """The controllers by id, and the id of this one."""

    addresses: dict[str, str]
    self_id: str


@dataclass(slots=True)
class ControllerConfig(ListenerConfig):
    """Settings that are not changeable can be set only in a file or on the command line, never over the wire."""

    # Used if neither `controllerDLegerPeers` nor `jRaftControllerRPCAddr` names the port of this controller.
    listen_port: int = bounded(9878, 0, 65535)

    # Files
    rocketmq_home: str = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME", ""))
    config_store_path: Path | None = field(default_factory=lambda: Path.home() / "controller" / "controller.properties")
    # The directory of the broker groups, for `controllerStorage=file`.
    controller_store_path: Path = field(default_factory=lambda: Path.home() / "KeroloxController")

    # `file` for a single controller, `etcd` for several. RocketMQ replicates between controllers instead.
    controller_storage: ControllerStorage = ControllerStorage.FILE
    # Such as `http://10.0.0.1:2379;http://10.0.0.2:2379`.
    etcd_endpoints: str = ""
    etcd_key_prefix: str = "/kerolox/controller"
    # A controller that etcd has not heard of for this long no longer leads.
    etcd_lease_seconds: int = bounded(5, 2, 60)
    etcd_ca_path: Path | None = None
    etcd_cert_path: Path | None = None
    etcd_key_path: Path | None = None

    # Controllers
    controller_type: ControllerType = ControllerType.DLEDGER
    controller_d_leger_group: str = "controller"
    # All controllers, such as `n0-10.0.0.1:9878;n1-10.0.0.2:9878`. Brokers learn addresses from it.
    controller_d_leger_peers: str = ""
    controller_d_leger_self_id: str = "n0"
    jraft_group_id: str = named("jRaftGroupId", "jRaft-Controller")
    # With `controllerType=jRaft`, the id of this controller among those of `jRaftInitConf`.
    jraft_server_id: str = named("jRaftServerId", "localhost:9880")
    jraft_init_conf: str = named("jRaftInitConf", "")
    # The addresses of the controllers, in the order of `jRaftInitConf`.
    jraft_controller_rpc_addr: str = named("jRaftControllerRPCAddr", "")

    # Elections
    notify_broker_role_changed: bool = changeable(True)
    # Elects a broker outside the sync state set if no member lives, which loses acknowledged messages.
    enable_elect_unclean_master: bool = False
    scan_not_active_broker_interval: int = changeable(5000, 10, 600_000)
    scan_inactive_master_interval: int = changeable(5000, 10, 600_000)
    elect_master_max_retry_count: int = changeable(3, 1, 100)
    # Requests that may wait for the storage at once; the next is answered SYSTEM_BUSY.
    controller_request_thread_pool_queue_capacity: int = bounded(50_000, 1, 1_000_000)
    config_black_list: str = "configBlackList;configStorePath"

    # Limits that RocketMQ does not have
    broker_group_nums_max: int = bounded(10_000, 1, 1_000_000)
    # Brokers of one group.
    replica_nums_max: int = bounded(100, 1, 10_000)
    # Brokers of all groups whose heartbeats are kept.
    broker_nums_max: int = bounded(20_000, 1, 1_000_000)

    # Accepted and returned, so that configuration files and tools for RocketMQ work, but without effect: they tune
    # threads and the logs of DLedger and JRaft.
    controller_thread_pool_nums: int = 16
    is_process_read_event: bool = False
    mapped_file_size: int = 1024 * 1024 * 1024
    jraft_election_timeout_ms: int = named("jRaftElectionTimeoutMs", 1000)
    jraft_snapshot_interval_secs: int = named("jRaftSnapshotIntervalSecs", 3600)
    jraft_scan_wait_timeout_ms: int = named("jRaftScanWaitTimeoutMs", 1000)

    @property
    def group(self) -> str:
        return self.jraft_group_id if self.controller_type is ControllerType.JRAFT else self.controller_d_leger_group

    def peers(self) -> Peers | None:
        """Return the configured controllers, checked; None if none are configured: then this one is alone."""
        if self.controller_type is ControllerType.JRAFT:
            return self._jraft_peers()
        if not self.controller_d_leger_peers.strip():
            return None
        parted = [part.strip().partition("-") for part in self.controller_d_leger_peers.split(";") if part.strip()]
        addresses = {peer_id: address for peer_id, _, address in parted}
        for peer_id, address in addresses.items():
            _check_peer("controllerDLegerPeers", peer_id, address)
        if self.controller_d_leger_self_id not in addresses:
            raise ConfigurationError(
                f"controllerDLegerSelfId={self.controller_d_leger_self_id} is not among controllerDLegerPeers "
                f"({', '.join(addresses)})"
            )
        return Peers(addresses, self.controller_d_leger_self_id)

    def _jraft_peers(self) -> Peers | None:
        addresses = parse_addresses(self.jraft_controller_rpc_addr.replace(",", ";"))
        ids = parse_addresses(self.jraft_init_conf.replace(",", ";"))
        if not addresses:
            return None
        if len(ids) != len(addresses) or self.jraft_server_id not in ids:
            raise ConfigurationError(
                f"jRaftInitConf ({', '.join(ids)}) must have as many entries as jRaftControllerRPCAddr "
                f"({', '.join(addresses)}), and jRaftServerId={self.jraft_server_id} must be one of them"
            )
        return Peers(dict(zip(ids, addresses, strict=True)), self.jraft_server_id)

    def validate(self) -> None:
        """Raise ConfigurationError if the settings contradict each other."""
        peers = self.peers()
        count = 1 if peers is None else len(peers.addresses)
        if self.controller_storage is ControllerStorage.FILE and count > 1:
            raise ConfigurationError(
                f"{count} controllers are configured, and a local file cannot be shared: set controllerStorage=etcd "
                "and etcdEndpoints, or configure one controller (there is no DLedger and no JRaft here)"
            )
        if self.controller_storage is ControllerStorage.ETCD and not self.endpoints():
            raise ConfigurationError("controllerStorage=etcd needs etcdEndpoints, such as http://127.0.0.1:2379")
        if peers is None and self.bind_address in _ALL_INTERFACES:
            raise ConfigurationError(
                f"bindAddress={self.bind_address} needs controllerDLegerPeers=n0-HOST:PORT, with the address that "
                "brokers connect to"
            )

    def endpoints(self) -> list[str]:
        return [part.strip() for part in self.etcd_endpoints.split(";") if part.strip()]

    def port(self) -> int:
        peers = self.peers()
        return self.listen_port if peers is None else parse_address(peers.addresses[peers.self_id])[1]

    def etcd_tls(self) -> ssl.SSLContext | None:
        if self.etcd_ca_path is None and self.etcd_cert_path is None:
            return None
        try:
            context = ssl.create_default_context(cafile=self.etcd_ca_path)
            if self.etcd_cert_path is not None:
                context.load_cert_chain(self.etcd_cert_path, self.etcd_key_path)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"etcdCaPath, etcdCertPath or etcdKeyPath: {reason(error)}") from error
        return context


def _check_peer(key: str, peer_id: str, address: str) -> None:
    try:
        parse_address(address)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {peer_id}-{address} is not ID-HOST:PORT, such as n0-10.0.0.1:9878") from error
