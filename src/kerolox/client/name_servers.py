"""The NameServers of a session: one is asked until it fails or lags, then the next."""

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
        # Clients that all start with the first of the list would leave the others idle.
        self._chosen = random.randrange(len(addresses))  # noqa: S311

    @property
    def current(self) -> str:
        return self._addresses[self._chosen]

    @property
    def addresses(self) -> list[str]:
        """All of them, the one in use first."""
        return self._addresses[self._chosen :] + self._addresses[: self._chosen]

    def replace(self, addresses: list[str]) -> None:
        """Asks these from now on; the one in use stays so if it is among them."""
        assert addresses
        if set(addresses) != set(self._addresses):
            log.info("the NameServers are %s now", ";".join(addresses))
            current = self.current
            self._addresses = list(addresses)
            self._chosen = addresses.index(current) if current in addresses else random.randrange(len(addresses))  # noqa: S311

    async def ask(self, question: Callable[[str, float], Awaitable[R]], *, timeout_seconds: float) -> R:
        """Returns the first answer; the time is shared out, so that one that hangs leaves the others enough.

        That a topic is unknown counts only when all say so: one that has just started knows nothing yet.
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
                log.warning("NameServer %s did not answer: %s", address, error)
                failure = error
                # Of several who failed at once, one moves on.
                if address == self.current:
                    self._chosen = (self._chosen + 1) % len(self._addresses)
        if refusal is not None:
            raise refusal
        assert failure is not None
        raise failure
