"""The dashboard as a service: an HTTP server and a background sampler over one session of the admin client."""

import asyncio

from kerolox.admin import AdminClient
from kerolox.client import MessageQueue, Producer, Received
from kerolox.dashboard.app import application
from kerolox.dashboard.http import users
from kerolox.dashboard.http.connections import Server, create_server, listening_socket
from kerolox.dashboard.http.login_log import LoginLog
from kerolox.dashboard.http.page import DashboardContext
from kerolox.dashboard.http.sessions import LoginBackoff, Sessions
from kerolox.dashboard.options import DashboardOptions
from kerolox.dashboard.sampler import Sampler
from kerolox.dashboard.views.body_text import as_stored
from kerolox.message.compression import decompress
from kerolox.message.message import Message as Record
from kerolox.runtime.service import Service

__all__ = ["Dashboard", "DashboardOptions"]

# Brokers list this group among the producers.
PRODUCER_GROUP = "kerolox_dashboard"
_BODY_SIZE_MAX = 1024 * 1024


class Dashboard(Service):
    """A dashboard in this process. `url` is its address, once it is open."""

    def __init__(self, options: DashboardOptions | None = None) -> None:
        self.options = options or DashboardOptions()
        self.url = ""
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._admin: AdminClient | None = None
        self._raw_admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._sampler: Sampler | None = None

    async def open(self) -> None:
        """Start to listen. ConfigurationError if the port is taken, or if a login is needed and there are no users."""
        options = self.options
        options.check()
        known = users.load(options.users_file) if options.users_file is not None else None
        listening = listening_socket(options)
        try:
            client = options.client_options()
            self._admin = AdminClient(options=client, timeout_seconds=options.timeout_seconds)
            self._admin.messages.restore = _decompressed
            await self._admin.start()
            self._raw_admin = AdminClient(options=client, timeout_seconds=options.timeout_seconds)
            self._raw_admin.messages.restore = as_stored
            await self._raw_admin.start()
            self._producer = Producer(PRODUCER_GROUP, options=client)
            await self._producer.start()
        except BaseException:
            listening.close()
            await self.close()
            raise
        port = listening.getsockname()[1]
        self._sampler = Sampler(self._admin, options)
        context = DashboardContext(
            options=options,
            admin=self._admin,
            raw_admin=self._raw_admin,
            producer=self._producer,
            sampler=self._sampler,
            users=known,
            sessions=Sessions(options.clock),
            login_backoff=LoginBackoff(options.clock),
            login_log=LoginLog(options.clock),
            # Cookies are not separated by port: two dashboards on one host need different names.
            cookie=f"kerolox_{port}",
        )
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"http://{host}:{port}"
        self._server = create_server(application(context), options)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]), name="dashboard")

    async def run(self) -> None:
        assert self._sampler is not None
        assert self._serving is not None
        sampling = asyncio.create_task(self._sampler.run(), name="dashboard sampler")
        try:
            await asyncio.shield(self._serving)
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)

    async def close(self) -> None:
        """Stop the server, after a short time for pending responses, and close the clients."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait([self._serving])
            self._server = self._serving = None
        for client in (self._producer, self._raw_admin, self._admin):
            if client is not None:
                await client.close()
        self._producer = self._raw_admin = self._admin = None


def _decompressed(record: Record, queue: MessageQueue) -> Received:
    """Decompress with a limit: this client reads messages that are not shown themselves, such as traces."""
    message = as_stored(record, queue)
    message.body = decompress(record.body, record.sys_flag, _BODY_SIZE_MAX)
    return message
