import pytest

from kerolox.admin import PartlyDone
from kerolox.dashboard.sentences import sentence, status
from kerolox.errors import AnswerError, CallTimeout, ConnectFailed, KeroloxError, NoPermission, TopicNotFound


def test_a_sentence_has_the_usual_remedy() -> None:
    assert "is it running there?" in sentence(ConnectFailed("no connection\nto 127.0.0.1:1"))
    assert "\n" not in sentence(ConnectFailed("no connection\nto 127.0.0.1:1"))


def test_of_several_failures_the_first_says_what_kind_it_is() -> None:
    error = PartlyDone("GET", {}, {"broker-a": CallTimeout("late"), "broker-b": TopicNotFound("orders")})

    assert status(error) == 502
    assert "it may be busy" in sentence(error)


@pytest.mark.parametrize(
    "error",
    [
        NoPermission("User:teapot has no permission to access Topic:orders from 127.0.0.1"),
        NoPermission("User:teapot is not found."),
        AnswerError.of(1, "org.apache.rocketmq.acl.common.AclException: No acl config for teapot"),
        PartlyDone("GET", {}, {"broker-a": NoPermission("check signature failed.")}),
    ],
)
def test_who_is_not_let_in_is_told_where_keys_come_from(error: KeroloxError) -> None:
    assert sentence(error).endswith("; the dashboard's own keys come from --access-key and --secret-key")


@pytest.mark.parametrize(
    "remark",
    [
        "the topic[orders] sending message is forbidden",
        "subscription group no permission, packers",
        "Can not update config in black list.",
        "brokerRole cannot be changed while running; set it in the file and restart",
        "The user is existed",
        "The subject of User:teapot is not exist.",
        "password can not be blank",
    ],
)
def test_keys_are_no_remedy_where_nobody_may(remark: str) -> None:
    assert sentence(NoPermission(remark)) == f"{remark} (NO_PERMISSION, 16)"
    assert status(NoPermission(remark)) == 403
