"""The states of a client: new, starting, running, closed. A closed client cannot be started again."""

from enum import Enum

from kerolox.client.errors import WrongState


class _State(Enum):
    NEW = "has not been started"
    STARTING = "is being started"
    RUNNING = "has been started"
    CLOSED = "has been closed"


class Lifecycle:
    """Rejects calls in the wrong order. `owner` names the client in error messages: `producer of group 'g'`."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._state = _State.NEW

    @property
    def is_running(self) -> bool:
        return self._state is _State.RUNNING

    @property
    def is_closed(self) -> bool:
        return self._state is _State.CLOSED

    def set_starting(self) -> None:
        """Raise WrongState unless this is the first start."""
        if self._state is not _State.NEW:
            raise WrongState(f"the {self._owner} {self._state.value} and cannot be started again: create a new one")
        self._state = _State.STARTING

    def set_running(self) -> None:
        self._state = _State.RUNNING

    def set_closed(self) -> bool:
        """Return whether there is something to close: False if it never started, or is closed already."""
        was_open = self._state in (_State.STARTING, _State.RUNNING)
        self._state = _State.CLOSED
        return was_open

    def check(self) -> None:
        """Raise WrongState unless the client is running."""
        if self._state is not _State.RUNNING:
            raise WrongState(f"the {self._owner} {self._state.value}; use it inside of `with`, or after `start()`")
