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

    async def ask(self, question: Callable[[str, float], Awaitable[R]], *, timeout_seconds: float) -> R:
        """Returns the first answer; the time is shared out, so that one that hangs leaves the others enough.

        That a topic is unknown counts only when all say so: one that has just started knows nothing yet.
        """
        failure: RemotingError | None = None
        refusal: AnswerError | None = None
        for address in self.addresses:
            try:
                return await question(address, timeout_seconds / len(self._addresses))
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
