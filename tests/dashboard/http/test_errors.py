import pytest

from kerolox.admin import PartlyDone
from kerolox.dashboard.http.errors import error_text, http_status
from kerolox.errors import AnswerError, CallTimeout, ConnectFailed, KeroloxError, NoPermission, TopicNotFound


def test_the_error_text_contains_the_usual_remedy() -> None:
    assert "is it running there?" in error_text(ConnectFailed("no connection\nto 127.0.0.1:1"))
    assert "\n" not in error_text(ConnectFailed("no connection\nto 127.0.0.1:1"))


def test_the_first_of_several_failures_decides_status_and_remedy() -> None:
    error = PartlyDone("GET", {}, {"broker-a": CallTimeout("late"), "broker-b": TopicNotFound("orders")})

    assert http_status(error) == 502
    assert "it may be busy" in error_text(error)


@pytest.mark.parametrize(
    "error",
    [
        NoPermission("User:teapot has no permission to access Topic:orders from 127.0.0.1"),
        NoPermission("User:teapot is not found."),
        AnswerError.of(1, "org.apache.rocketmq.acl.common.AclException: No acl config for teapot"),
        PartlyDone("GET", {}, {"broker-a": NoPermission("check signature failed.")}),
    ],
)
def test_access_denied_names_the_options_for_keys(error: KeroloxError) -> None:
    assert error_text(error).endswith("; the dashboard's own keys are set with --access-key and --secret-key")


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
def test_other_permission_errors_do_not_mention_keys(remark: str) -> None:
    assert error_text(NoPermission(remark)) == f"{remark} (NO_PERMISSION, 16)"
    assert http_status(NoPermission(remark)) == 403
