import pytest

from kerolox.client.errors import WrongState
from kerolox.client.session.lifecycle import Lifecycle


def test_a_client_starts_once_and_closing_twice_does_nothing() -> None:
    life = Lifecycle("producer")
    with pytest.raises(WrongState, match="the producer has not been started"):
        life.check()

    life.set_starting()
    with pytest.raises(WrongState, match="is being started"):
        life.check()
    life.set_running()
    life.check()
    assert life.is_running
    with pytest.raises(WrongState, match="has been started"):
        life.set_starting()

    assert life.set_closed()
    assert not life.set_closed()
    with pytest.raises(WrongState, match="has been closed"):
        life.check()


def test_a_client_that_never_started_has_nothing_to_close() -> None:
    assert not Lifecycle("producer").set_closed()
