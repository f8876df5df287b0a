"""The brokers that a command addresses, from its flags -b (address) and -c (cluster)."""

from kerolox.admin import AdminError, UnknownCluster
from kerolox.cli.admin.command import Call
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.client.session.topic_routes import MASTER_ID
from kerolox.wire.bodies.routes import ClusterInfo


async def master_addresses(call: Call) -> list[str]:
    """Return the address given by -b, or those of the cluster's masters."""
    broker = call.get("brokerAddr")
    if broker is not None:
        return [broker]
    return [addresses[0] for addresses in await addresses_by_broker(call, call["clusterName"])]


async def broker_addresses(call: Call) -> list[str]:
    """Return the address given by -b, or those of all brokers of the cluster, including slaves."""
    broker = call.get("brokerAddr")
    if broker is not None:
        return [broker]
    return [address for addresses in await addresses_by_broker(call, call["clusterName"]) for address in addresses]


def require_target(call: Call) -> None:
    """Raise InvalidUsage if neither -b nor -c is given, for commands in which Java declares both as optional."""
    if not call.has("brokerAddr") and not call.has("clusterName"):
        raise InvalidUsage("give one of -b (--brokerAddr), -c (--clusterName)")


async def addresses_by_broker(call: Call, cluster: str) -> list[list[str]]:
    """Return the addresses of each broker of a cluster, master first; brokers without a master are left out."""
    info = await call.admin.cluster.info()
    names = sorted(_names(info, cluster))
    tables = [info.broker_addr_table[name].broker_addrs for name in names if name in info.broker_addr_table]
    found = [[table[number] for number in sorted(table)] for table in tables if MASTER_ID in table]
    if not found:
        raise AdminError(f"cluster {cluster!r} has no master that is online")
    return found


def _names(info: ClusterInfo, cluster: str) -> list[str]:
    if cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise UnknownCluster(f"unknown cluster {cluster!r}; known clusters: {known}")
    return info.cluster_addr_table[cluster]


def cluster_of(info: ClusterInfo, broker_name: str) -> str | None:
    return next((cluster for cluster, names in info.cluster_addr_table.items() if broker_name in names), None)
