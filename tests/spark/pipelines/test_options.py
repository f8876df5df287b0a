"""Options that ready-made pipelines share."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.options import Connection, moment, trigger_of


def test_how_to_connect_is_told_to_the_format() -> None:
    given = Connection(name_server="a:1", access_key="me", secret_key="secret", tls=True)

    assert given.connecting == {"nameServer": "a:1", "accessKey": "me", "secretKey": "secret", "tls": "true"}
    assert Connection(name_server="a:1").connecting == {"nameServer": "a:1"}
    assert "secret" not in repr(given).replace("secret_key", "")


def session(master: str) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, defaultParallelism=40))


def test_options_of_the_format_are_passed_on() -> None:
    given = Connection(name_server="a:1", tls_ca="ca.pem", format_options=("retryTimeout=5m", "sql=a = 'b'"))
    own = {"subscribe": "orders", "startingOffsets": "earliest"}

    read = given.reading(session("local[2]"), own, is_stream=True)

    assert read == {
        "nameServer": "a:1",
        "tlsTrustCertPath": "ca.pem",
        **own,
        "retryTimeout": "5m",
        "sql": "a = 'b'",
    }
    later = Connection(format_options=("startingtimestamp=5",)).reading(session("local"), own, is_stream=True)
    assert (later["startingtimestamp"], "startingOffsets" in later) == ("5", False)


def test_a_cluster_has_tasks_for_all_its_cores_unless_it_was_told_how_many() -> None:
    given = Connection(format_options=("MINPARTITIONS=7",))
    own = {"subscribe": "orders"}

    assert Connection().reading(session("yarn"), own, is_stream=False)["minPartitions"] == "40"
    assert "minPartitions" not in Connection().reading(session("local[*]"), own, is_stream=False)
    read = given.reading(session("yarn"), own, is_stream=True)
    assert read == {**given.connecting, **own, "MINPARTITIONS": "7"}


def test_clients_without_spark_connect_in_the_same_way() -> None:
    given = Connection(name_server="a:1", access_key="me", secret_key="secret", tls=True)
    more = replace(given, format_options=("securityToken=token", "rocketmq.mqClientApiTimeout=9s"))

    found = more.client_options()

    assert (found.namesrv_addr, found.access_key, found.security_token) == ("a:1", "me", "token")
    assert found.mq_client_api_timeout_seconds == 9
    assert found.tls


def test_what_the_pipeline_says_is_not_said_twice() -> None:
    with pytest.raises(OptionError, match="option is 'failOnDataLoss': give KEY=VALUE"):
        Connection(format_options=("failOnDataLoss",))
    given = Connection(format_options=("Subscribe=other",))
    with pytest.raises(OptionError, match="option Subscribe is 'orders' by the pipeline itself: leave it out"):
        given.reading(session("local"), {"subscribe": "orders"}, is_stream=True)


def test_what_the_format_does_not_know_is_told_before_it_is_asked() -> None:
    given = Connection(format_options=("minPartition=3",))
    with pytest.raises(OptionError, match="option minpartition is unknown: is minPartitions meant"):
        given.reading(session("local"), {"subscribe": "orders"}, is_stream=True)


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
