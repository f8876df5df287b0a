"""Error messages of commands."""

import pytest

from kerolox.admin import PartlyDone
from kerolox.cli.admin.errors import CommandFailed, describe_error, describe_spark_error
from kerolox.errors import ConnectFailed, ConnectionLost, NoPermission, SystemFailure, TopicNotFound


def test_an_error_is_one_line_with_a_remedy() -> None:
    text = describe_error(ConnectFailed("127.0.0.1:9876\n refused"))

    assert text.startswith("127.0.0.1:9876 refused; is it running? Give NameServers with -n")


def test_each_kind_has_its_own_remedy() -> None:
    assert describe_error(TopicNotFound("no topic")).endswith("; `kerolox admin topicList` lists the topics")
    assert describe_error(ConnectionLost("lost")) == (
        "lost; another program may listen there, or it was just stopped; try `kerolox doctor`"
    )
    assert "tools.yml" in describe_error(NoPermission("no"))
    assert "tools.yml" in describe_error(NoPermission("User:me has no permission to access Topic:orders"))
    assert describe_error(CommandFailed("that is all")) == "that is all"


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
def test_errors_unrelated_to_access_keys_have_no_key_remedy(remark: str) -> None:
    assert describe_error(NoPermission(remark)) == f"{remark} (NO_PERMISSION, 16)"


def test_a_broker_without_a_metadata_provider_is_explained() -> None:
    for remark in ("An system error occurred, please try again later.", "The ...MetadataProvider is not configured."):
        assert "a broker without an authenticationMetadataProvider" in describe_error(SystemFailure(remark))


def test_a_partial_failure_has_the_remedy_of_its_first_error() -> None:
    text = describe_error(PartlyDone("DELETE", {"a": 1}, {"b": ConnectFailed("b refused")}))

    assert text.startswith("DELETE failed on 1 of 2 servers: b: b refused; is it running?")


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("orders: kerolox.errors.ConnectFailed: nobody\nthere", "orders: nobody there; is it running?"),
        ("kerolox.spark.option_parser.OptionError: option x: give one", "option x: give one"),
        ("pyspark.errors.Odd: it is", "pyspark.errors.Odd: it is"),
    ],
)
def test_class_names_are_removed_from_spark_errors(report: str, expected: str) -> None:
    assert describe_spark_error(report).startswith(expected)
    assert "kerolox." not in describe_spark_error(report)
