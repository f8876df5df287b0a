"""What operators are told when something goes wrong."""

import pytest

from kerolox.admin import PartlyDone
from kerolox.cli.admin.errors import NotDone, sentence, unnamed
from kerolox.errors import ConnectFailed, ConnectionLost, NoPermission, SystemFailure, TopicNotFound


def test_an_error_is_one_line_with_a_remedy() -> None:
    told = sentence(ConnectFailed("127.0.0.1:9876\n refused"))

    assert told.startswith("127.0.0.1:9876 refused; is it running there? NameServers are given by -n")


def test_each_kind_has_its_own_remedy() -> None:
    assert sentence(TopicNotFound("no topic")).endswith("; `kerolox admin topicList` says which there are")
    assert sentence(ConnectionLost("lost")) == (
        "lost; something else may listen there, or it was just stopped; `kerolox doctor` looks"
    )
    assert "tools.yml" in sentence(NoPermission("no"))
    assert "tools.yml" in sentence(NoPermission("User:me has no permission to access Topic:orders"))
    assert sentence(NotDone("that is all")) == "that is all"


@pytest.mark.parametrize(
    "remark",
    [
        "Can not update config in black list.",
        "listenPort cannot be changed while running",
        "the topic[orders] pulling message is forbidden",
        "subscription group no permission, shop",
        "The user is existed",
        "The subject of User:alice is not exist.",
        "The actions can not be Any.",
    ],
)
def test_keys_are_no_remedy_where_nobody_may(remark: str) -> None:
    assert sentence(NoPermission(remark)) == f"{remark} (NO_PERMISSION, 16)"


def test_of_a_broker_that_keeps_no_accounts_it_is_said() -> None:
    for remark in ("An system error occurred, please try again later.", "The ...MetadataProvider is not configured."):
        assert "a broker without an authenticationMetadataProvider" in sentence(SystemFailure(remark))


def test_of_several_servers_the_first_that_failed_has_the_remedy() -> None:
    told = sentence(PartlyDone("DELETE", {"a": 1}, {"b": ConnectFailed("b refused")}))

    assert told.startswith("DELETE failed on 1 of 2 servers: b: b refused; is it running there?")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("orders: kerolox.errors.ConnectFailed: nobody\nthere", "orders: nobody there; is it running there?"),
        ("kerolox.spark.given.OptionError: option x: give one", "option x: give one"),
        ("pyspark.errors.Odd: it is", "pyspark.errors.Odd: it is"),
    ],
)
def test_what_another_program_tells_is_told_without_names_of_classes(told: str, expected: str) -> None:
    assert unnamed(told).startswith(expected)
    assert "kerolox." not in unnamed(told)
