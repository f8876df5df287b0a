from kerolox.admin import PartlyDone
from kerolox.dashboard.sentences import sentence, status
from kerolox.errors import CallTimeout, ConnectFailed, TopicNotFound


def test_a_sentence_has_the_usual_remedy() -> None:
    assert "is it running there?" in sentence(ConnectFailed("no connection\nto 127.0.0.1:1"))
    assert "\n" not in sentence(ConnectFailed("no connection\nto 127.0.0.1:1"))


def test_of_several_failures_the_first_says_what_kind_it_is() -> None:
    error = PartlyDone("GET", {}, {"broker-a": CallTimeout("late"), "broker-b": TopicNotFound("orders")})

    assert status(error) == 502
    assert "it may be busy" in sentence(error)
