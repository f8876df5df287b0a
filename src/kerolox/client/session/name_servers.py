"""The NameServers of a session: requests go to one of them until it fails, then to the next."""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kerolox.errors import AnswerError, RemotingError, TopicNotFound

log = logging.getLogger(__name__)

R = TypeVar("R")


class NameServers:
    def __init__(self, addresses: list[str]) -> None:
        assert addresses
        self._addresses = list(addresses)
        # Random, because clients that all start with the first address would leave the other NameServers idle.
        self._chosen = random.randrange(len(addresses))  # noqa: S311

    @property
    def current(self) -> str:
        return self._addresses[self._chosen]

    @property
    def addresses(self) -> list[str]:
        """All addresses, the current one first."""
        return self._addresses[self._chosen :] + self._addresses[: self._chosen]

    def replace(self, addresses: list[str]) -> None:
        """Use these addresses from now on; the current NameServer stays current if it is among them."""
        assert addresses
        if set(addresses) != set(self._addresses):
            log.info("NameServers changed to %s", ";".join(addresses))
            current = self.current
            self._addresses = list(addresses)
            self._chosen = addresses.index(current) if current in addresses else random.randrange(len(addresses))  # noqa: S311

    async def ask(self, question: Callable[[str, float], Awaitable[R]], *, timeout_seconds: float) -> R:
        """Return the result of the first NameServer that responds.

        The timeout is divided among the NameServers, so that one that hangs leaves time for the others. TopicNotFound
        is raised only if no NameServer knows the topic: one that has just started has an empty route table.
        """
        failure: RemotingError | None = None
        refusal: AnswerError | None = None
        addresses = self.addresses
        for address in addresses:
            try:
                return await question(address, timeout_seconds / len(addresses))
            except TopicNotFound as error:
                refusal = error
            except RemotingError as error:
                log.warning("NameServer %s did not respond: %s", address, error)
                failure = error
                # If several concurrent requests fail, only the first advances to the next NameServer.
                if address == self.current:
                    self._chosen = (self._chosen + 1) % len(self._addresses)
        if refusal is not None:
            raise refusal
        assert failure is not None
        raise failure
