"""The admin client (DefaultMQAdminExt)."""

from typing import Self, Unpack

from kerolox.admin.auth import AccessLists, Policies, Users
from kerolox.admin.cluster import Clusters
from kerolox.admin.config import Configuration
from kerolox.admin.connections import Connections
from kerolox.admin.controllers import Controllers
from kerolox.admin.groups import Groups
from kerolox.admin.messages import Messages, Traces, Tracks
from kerolox.admin.offsets import Offsets
from kerolox.admin.queues import Queues
from kerolox.admin.statistics import Statistics
from kerolox.admin.targets import Servers
from kerolox.admin.topics import Topics
from kerolox.client.options import Options, Shared, options_of
from kerolox.errors import ConfigurationError


class AdminClient:
    """The tasks of `mqadmin`, grouped by subject, for brokers and NameServers of 4.9 and 5.x.

        async with AdminClient(namesrv_addr="127.0.0.1:9876") as admin:
            await admin.topics.create("orders", write_queues=16, read_queues=16)
            print((await admin.offsets.progress("shop")).lag)

    Names include the namespace (`namespace%orders`). PartlyDone is raised if only some of several servers succeed.
    """

    def __init__(
        self, *, options: Options | None = None, timeout_seconds: float = 5.0, **keywords: Unpack[Shared]
    ) -> None:
        self.options = options_of(options, **keywords)
        if self.options.namespace:
            raise ConfigurationError(
                f"namespace {self.options.namespace!r}: an admin client has no namespace; give names that include it"
            )
        self._servers = Servers(self.options, timeout_seconds)
        self.configuration = Configuration(self._servers)
        self.cluster = Clusters(self._servers)
        self.controllers = Controllers(self._servers)
        self.topics = Topics(self._servers, self.configuration)
        self.groups = Groups(self._servers, self.topics)
        self.queues = Queues(self._servers)
        self.connections = Connections(self._servers)
        self.offsets = Offsets(self._servers, self.queues, self.connections)
        self.messages = Messages(self._servers, self.queues)
        self.tracks = Tracks(self._servers, self.topics, self.offsets, self.connections)
        self.traces = Traces(self.messages)
        self.users = Users(self._servers)
        self.policies = Policies(self._servers)
        self.access = AccessLists(self._servers)
        self.statistics = Statistics(self._servers, self.topics, self.offsets)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start the client. It connects to servers when they are needed."""
        await self._servers.start()

    async def close(self) -> None:
        """Close the client. Closing twice does nothing."""
        await self._servers.close()
