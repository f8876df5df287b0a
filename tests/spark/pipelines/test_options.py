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
    told = ("1769860800000", "2026-01-31T12:00:00", "2026-01-31T13:00:00+01:00")
    assert {moment(text, "since") for text in told} == {1769860800000}
    with pytest.raises(OptionError, match="since 'noon' is no time: give 2026"):
        moment("noon", "since")


def test_triggers_are_named_as_spark_names_them() -> None:
    assert trigger_of("availablenow") == {"availableNow": True}
    for text in ("5 seconds", "1 minute", "1 hour 30 minutes", "100 milliseconds"):
        assert trigger_of(text) == {"processingTime": text}
    for wrong in ("soon", "5 apples", "seconds", "5", ""):
        with pytest.raises(OptionError, match=f"trigger is '{wrong}': give availableNow, or an interval such as"):
            trigger_of(wrong)
