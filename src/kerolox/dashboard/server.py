"""The dashboard as a service: it listens, samples in the background, and asks brokers through one admin client."""

import asyncio

from kerolox.admin import AdminClient
from kerolox.client import Producer
from kerolox.dashboard import users
from kerolox.dashboard.app import application
from kerolox.dashboard.listening import Server, bound, server
from kerolox.dashboard.options import DashboardOptions
from kerolox.dashboard.page import Desk
from kerolox.dashboard.samples import Samples
from kerolox.dashboard.sessions import Guesses, Sessions
from kerolox.runtime.service import Service

__all__ = ["Dashboard", "DashboardOptions"]

# Brokers show this group to those who ask who produces.
PRODUCER_GROUP = "kerolox_dashboard"


class Dashboard(Service):
    """`url` says where it is, once it is open."""

    def __init__(self, options: DashboardOptions | None = None) -> None:
        self.options = options or DashboardOptions()
        self.url = ""
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._admin: AdminClient | None = None
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
            await self._admin.start()
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
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.close()
        if self._admin is not None:
            admin, self._admin = self._admin, None
            await admin.close()
