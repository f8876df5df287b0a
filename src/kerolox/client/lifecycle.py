"""The states of a client: new, running, closed, and never back."""

from enum import Enum

from kerolox.client.errors import WrongState


class _State(Enum):
    NEW = "has not been started"
    STARTING = "is being started"
    RUNNING = "has been started"
    CLOSED = "has been closed"


class Lifecycle:
    """Says in plain words what a user did in the wrong order. `what` names the client: `producer of group 'g'`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._state = _State.NEW

    @property
    def is_running(self) -> bool:
        return self._state is _State.RUNNING

    @property
    def is_closed(self) -> bool:
        return self._state is _State.CLOSED

    def begin(self) -> None:
        """A client starts once."""
        if self._state is not _State.NEW:
            raise WrongState(f"the {self._what} {self._state.value}: each is started once, make another")
        self._state = _State.STARTING

    def begun(self) -> None:
        self._state = _State.RUNNING

    def end(self) -> bool:
        """Returns whether there was something to close; closing a second time does nothing."""
        was_open = self._state in (_State.STARTING, _State.RUNNING)
        self._state = _State.CLOSED
        return was_open

    def check(self) -> None:
        """WrongState unless it is running."""
        if self._state is not _State.RUNNING:
            raise WrongState(f"the {self._what} {self._state.value}; use it inside of `with`, or after `start()`")
