"""Options that ready-made pipelines share."""

import pytest

from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.options import Connection, moment, trigger_of


def test_how_to_connect_is_told_to_the_format() -> None:
    given = Connection(name_server="a:1", access_key="me", secret_key="secret", tls=True)

    assert given.connecting == {"nameServer": "a:1", "accessKey": "me", "secretKey": "secret", "tls": "true"}
    assert Connection(name_server="a:1").connecting == {"nameServer": "a:1"}
    assert "secret" not in repr(given).replace("secret_key", "")


def test_times_are_told_in_words_or_milliseconds() -> None:
    assert moment("1769860800000") == moment("2026-01-31T12:00:00") == moment("2026-01-31T13:00:00+01:00")
    with pytest.raises(OptionError, match="'noon' is no time: give 2026"):
        moment("noon")


def test_triggers_are_named_as_spark_names_them() -> None:
    assert trigger_of("availablenow") == {"availableNow": True}
    assert trigger_of("5 seconds") == {"processingTime": "5 seconds"}
