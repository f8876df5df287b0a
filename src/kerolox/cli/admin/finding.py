"""Which brokers a command is meant for: those of -b or -c, by address."""

from kerolox.admin import AdminError, UnknownCluster
from kerolox.cli.admin.declaring import Call
from kerolox.client.routes import MASTER_ID
from kerolox.wire.bodies.routes import ClusterInfo


async def masters(call: Call, *, cluster: str = "clusterName") -> list[str]:
    """Returns the address given by -b, or those of a cluster's masters."""
    broker = call.get("brokerAddr")
    return [broker] if broker is not None else [members[0] for members in await members_of(call, call[cluster])]


async def everybody(call: Call) -> list[str]:
    """Returns the address given by -b, or those of a cluster's brokers, slaves too."""
    broker = call.get("brokerAddr")
    if broker is not None:
        return [broker]
    return [address for members in await members_of(call, call["clusterName"]) for address in members]


async def members_of(call: Call, cluster: str) -> list[list[str]]:
    """Returns for each broker of a cluster its addresses, the master's first; those without a master are not there."""
    info = await call.admin.cluster.info()
    names = sorted(_names(info, cluster))
    tables = [info.broker_addr_table[name].broker_addrs for name in names if name in info.broker_addr_table]
    found = [[table[number] for number in sorted(table)] for table in tables if MASTER_ID in table]
    if not found:
        raise AdminError(f"cluster {cluster!r} has no living master")
    return found


def _names(info: ClusterInfo, cluster: str) -> list[str]:
    if cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise UnknownCluster(f"cluster {cluster!r} is not known. Known: {known}")
    return info.cluster_addr_table[cluster]


def cluster_of(info: ClusterInfo, broker_name: str) -> str | None:
    return next((cluster for cluster, names in info.cluster_addr_table.items() if broker_name in names), None)
