"""The dashboard as a service: it listens, samples in the background, and asks brokers through one admin client."""

import asyncio

from kerolox.admin import AdminClient
from kerolox.client import MessageQueue, Producer, Received
from kerolox.dashboard import users
from kerolox.dashboard.app import application
from kerolox.dashboard.bodies import as_stored
from kerolox.dashboard.listening import Server, bound, server
from kerolox.dashboard.options import DashboardOptions
from kerolox.dashboard.page import Desk
from kerolox.dashboard.samples import Samples
from kerolox.dashboard.sessions import Guesses, Sessions
from kerolox.message.compression import decompress
from kerolox.message.message import Message as Record
from kerolox.runtime.service import Service

__all__ = ["Dashboard", "DashboardOptions"]

# Brokers show this group to those who ask who produces.
PRODUCER_GROUP = "kerolox_dashboard"
_RESTORED_SIZE_MAX = 1024 * 1024


class Dashboard(Service):
    """`url` says where it is, once it is open."""

    def __init__(self, options: DashboardOptions | None = None) -> None:
        self.options = options or DashboardOptions()
        self.url = ""
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._admin: AdminClient | None = None
        self._stored: AdminClient | None = None
        self._producer: Producer | None = None
        self._samples: Samples | None = None

    async def open(self) -> None:
        """Listens when it returns. ConfigurationError if it cannot, or may not for want of a login."""
        options = self.options
        options.check()
        known = users.load(options.users_file) if options.users_file is not None else None
        listening = bound(options)
        try:
            client = options.client_options()
            self._admin = AdminClient(options=client, timeout_seconds=options.timeout_seconds)
            self._admin.messages.restore = _restored
            await self._admin.start()
            self._stored = AdminClient(options=client, timeout_seconds=options.timeout_seconds)
            self._stored.messages.restore = as_stored
            await self._stored.start()
            self._producer = Producer(PRODUCER_GROUP, options=client)
            await self._producer.start()
        except BaseException:
            listening.close()
            await self.close()
            raise
        port = listening.getsockname()[1]
        self._samples = Samples(self._admin, options)
        desk = Desk(
            options,
            self._admin,
            self._stored,
            self._producer,
            self._samples,
            known,
            Sessions(options.clock),
            Guesses(options.clock),
            # Browsers keep cookies by name only, whatever the port.
            cookie=f"kerolox_{port}",
        )
        host = f"[{options.host}]" if ":" in options.host else options.host
        self.url = f"http://{host}:{port}"
        self._server = server(application(desk), options)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]), name="dashboard")

    async def run(self) -> None:
        assert self._samples is not None
        assert self._serving is not None
        sampling = asyncio.create_task(self._samples.run(), name="dashboard samples")
        try:
            await asyncio.shield(self._serving)
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)

    async def close(self) -> None:
        """Ends what is being answered, and leaves the cluster."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait([self._serving])
            self._server = self._serving = None
        for client in (self._producer, self._stored, self._admin):
            if client is not None:
                await client.close()
        self._producer = self._stored = self._admin = None


def _restored(record: Record, queue: MessageQueue) -> Received:
    """Of messages that are not shown themselves, such as those that carry traces, no longer ones are believed."""
    message = as_stored(record, queue)
    message.body = decompress(record.body, record.sys_flag, _RESTORED_SIZE_MAX)
    return message
