import pytest

from kerolox.client.errors import WrongState
from kerolox.client.lifecycle import Lifecycle


def test_a_client_is_started_once_and_closed_as_often_as_one_likes() -> None:
    life = Lifecycle("producer")
    with pytest.raises(WrongState, match="the producer has not been started"):
        life.check()

    life.begin()
    with pytest.raises(WrongState, match="is being started"):
        life.check()
    life.begun()
    life.check()
    assert life.is_running
    with pytest.raises(WrongState, match="has been started"):
        life.begin()

    assert life.end()
    assert not life.end()
    with pytest.raises(WrongState, match="has been closed"):
        life.check()


def test_what_was_never_started_has_nothing_to_close() -> None:
    assert not Lifecycle("producer").end()
