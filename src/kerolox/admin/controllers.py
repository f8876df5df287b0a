"""Controllers: who leads them, masters and sync state sets of broker groups, elections, settings (5.x)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kerolox.admin.errors import AdminError
from kerolox.admin.targets import Servers
from kerolox.remoting.address import parse_addresses
from kerolox.runtime.text import fastjson, properties
from kerolox.wire.bodies.controller import BrokerReplicasInfo, ElectMasterResponseBody, EpochEntryCache, ReplicasInfo
from kerolox.wire.headers import controller as c


@dataclass(frozen=True, slots=True)
class Election:
    """The result of an election: the new master, its epochs, and the addresses of the group by broker id."""

    master_id: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set_epoch: int
    brokers: dict[int, str]


class Controllers:
    """Methods take the address of a controller, or several separated by `;`, and find the one that leads."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    # Queries

    async def metadata(self, controllers: str) -> c.ControllerMetadata:
        """Return who leads the controllers, as the first one that answers says."""
        addresses = dict.fromkeys(parse_addresses(controllers))

        async def ask(address: str) -> c.ControllerMetadata:
            return (await self._servers.call(address, c.GetControllerMetadata())).fields

        return await self._servers.first({address: address for address in addresses}, ask)

    async def _leader(self, controllers: str) -> str:
        address = (await self.metadata(controllers)).controller_leader_address
        if not address:
            raise AdminError(f"the controllers {controllers} have no leader yet; try again in a few seconds")
        return address

    async def sync_state(self, controllers: str, broker_names: Iterable[str]) -> dict[str, ReplicasInfo]:
        """Return broker name → master, epochs and replicas; brokers that no controller knows are left out."""
        leader = await self._leader(controllers)
        reply = await self._servers.call(leader, c.GetSyncStateData(), fastjson.encode(sorted(set(broker_names))))
        return BrokerReplicasInfo.decode(reply.body).replicas_info_table

    async def broker_epochs(self, broker: str) -> EpochEntryCache:
        """Return which epochs wrote which parts of a broker's commit log."""
        reply = await self._servers.call(await self._servers.address(broker), c.GetBrokerEpochCache())
        return EpochEntryCache.decode(reply.body)

    # Changes

    async def elect_master(self, controllers: str, broker_name: str, broker_id: int, *, cluster: str = "") -> Election:
        """Make a broker the master of its group. It must be alive, and in the sync state set."""
        request = c.ElectMaster(
            broker_id=broker_id, cluster_name=cluster, designate_elect=True, broker_name=broker_name
        )
        reply = await self._servers.call(await self._leader(controllers), request)
        members = ElectMasterResponseBody.decode(reply.body).broker_member_group if reply.body else None
        fields = reply.fields
        return Election(
            fields.master_broker_id,
            fields.master_address,
            fields.master_epoch or 0,
            fields.sync_state_set_epoch or 0,
            {} if members is None else members.broker_addrs,
        )

    async def clean_broker_data(
        self,
        controllers: str,
        broker_name: str,
        *,
        broker_ids: Iterable[int] = (),
        cluster: str | None = None,
        with_living: bool = False,
    ) -> None:
        """Remove brokers from their group, or the whole group if no ids are given; living ones only on request."""
        request = c.CleanBrokerData(
            broker_controller_ids_to_clean=";".join(map(str, broker_ids)) or None,
            is_clean_living_broker=with_living,
            cluster_name=cluster,
            broker_name=broker_name,
        )
        await self._servers.call(await self._leader(controllers), request)

    # Settings

    async def configs(self, controllers: str) -> dict[str, dict[str, str]]:
        """Return address → settings of each controller."""
        addresses = parse_addresses(controllers)
        replies = await self._servers.each(
            c.GetControllerConfig.code.name,
            dict(zip(addresses, addresses, strict=True)),
            lambda address: self._servers.call(address, c.GetControllerConfig()),
        )
        return {address: properties.parse(reply.body.decode("utf-8", "replace")) for address, reply in replies.items()}

    async def update_configs(self, controllers: str, settings: Mapping[str, str]) -> None:
        """Change settings of all these controllers."""
        addresses, body = parse_addresses(controllers), properties.format_lines(settings).encode()
        await self._servers.each(
            c.UpdateControllerConfig.code.name,
            dict(zip(addresses, addresses, strict=True)),
            lambda address: self._servers.call(address, c.UpdateControllerConfig(), body),
        )
