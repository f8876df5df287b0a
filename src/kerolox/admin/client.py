"""The admin client: what an operator can do, put together."""

from typing import Self, Unpack

from kerolox.admin.access import AccessLists
from kerolox.admin.cluster import Clusters
from kerolox.admin.configuration import Configuration
from kerolox.admin.connections import Connections
from kerolox.admin.groups import Groups
from kerolox.admin.messages import Messages
from kerolox.admin.offsets import Offsets
from kerolox.admin.queues import Queues
from kerolox.admin.servers import Servers
from kerolox.admin.statistics import Statistics
from kerolox.admin.topics import Topics
from kerolox.admin.traces import Traces
from kerolox.admin.tracks import Tracks
from kerolox.admin.users import Policies, Users
from kerolox.client.options import Options, Shared, options_of
from kerolox.errors import ConfigurationError


class AdminClient:
    """What `mqadmin` can do, by subject, for brokers and NameServers of 4.9 and 5.x.

        async with AdminClient(namesrv_addr="127.0.0.1:9876") as admin:
            await admin.topics.create("orders", write_queues=16, read_queues=16)
            print((await admin.offsets.progress("shop")).lag)

    Names are as brokers know them: those of a namespace begin with it (`namespace%orders`). What several servers
    were asked for and not all did raises PartlyDone.
    """

    def __init__(
        self, *, options: Options | None = None, timeout_seconds: float = 5.0, **keywords: Unpack[Shared]
    ) -> None:
        self.options = options_of(options, **keywords)
        if self.options.namespace:
            raise ConfigurationError(
                f"namespace {self.options.namespace!r}: an admin client has none, and takes names as brokers know them"
            )
        self._servers = Servers(self.options, timeout_seconds)
        self.configuration = Configuration(self._servers)
        self.cluster = Clusters(self._servers)
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
        """Begins; servers are connected to when they are needed."""
        await self._servers.start()

    async def close(self) -> None:
        """Leaves; a second time does nothing."""
        await self._servers.close()
