"""Settings of replication (MessageStoreConfig)."""

from dataclasses import dataclass

from kerolox.replication.classic_stream import BODY_SIZE_MAX
from kerolox.runtime.config import Properties, bounded, formerly

_INTERVAL_MAX = 24 * 3600 * 1000


@dataclass(slots=True)
class ReplicationConfig(Properties):
    """Settings under RocketMQ's keys."""

    # Port on which a master listens for slaves; 0 means listenPort + 1.
    ha_listen_port: int = bounded(0, 0, 65535)
    # Address (host:port) of the master's port for slaves; by default a slave learns it from the NameServer.
    ha_master_address: str = ""
    # Milliseconds without a write after which a master sends a heartbeat and a slave repeats its report.
    ha_send_heartbeat_interval: int = bounded(5000, 1, _INTERVAL_MAX)
    # Milliseconds after which a connection on which nothing was received is closed.
    ha_housekeeping_interval: int = bounded(20_000, 1, _INTERVAL_MAX)
    # Most bytes of the log in one frame to a slave of RocketMQ's; slaves of our own get larger ones.
    ha_transfer_batch_size: int = bounded(32 * 1024, 1024, BODY_SIZE_MAX)
    # Limit the bytes per second that each slave is sent to maxHaTransferByteInSecond.
    ha_flow_control_enable: bool = False
    # Bytes per second, if haFlowControlEnable is set.
    max_ha_transfer_byte_in_second: int = bounded(100 * 1024 * 1024, 1024, 2**40)
    # A slave that is further behind, in bytes, is not in sync: sends of a SYNC_MASTER do not wait for it.
    ha_max_gap_not_in_sync: int = formerly("haSlaveFallbehindMax", 256 * 1024 * 1024)
    # Copies that a send of a SYNC_MASTER waits for, including the master's own. RocketMQ's default is 1, which waits
    # for no slave.
    in_sync_replicas: int = bounded(2, 1, 1000)
    # With enableAutoInSyncReplicas, the least number of copies that a send waits for.
    min_in_sync_replicas: int = bounded(1, 1, 1000)
    # Wait for fewer copies than inSyncReplicas while fewer slaves are in sync.
    enable_auto_in_sync_replicas: bool = False
    # Milliseconds that a send waits for copies; then it is answered with FLUSH_SLAVE_TIMEOUT.
    slave_timeout: int = bounded(3000, 0, _INTERVAL_MAX)
    # Brokers of the group.
    total_replicas: int = bounded(1, 1, 1000)
