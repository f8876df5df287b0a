"""Options that ready-made pipelines share."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kerolox.spark.option_parser import OptionError
from kerolox.spark.pipelines.engine.options import PipelineOptions, parse_timestamp, parse_trigger


def test_connection_options_are_passed_to_the_format() -> None:
    given = PipelineOptions(name_server="a:1", access_key="me", secret_key="secret", tls=True)

    assert given.connection_options == {"nameServer": "a:1", "accessKey": "me", "secretKey": "secret", "tls": "true"}
    assert PipelineOptions(name_server="a:1").connection_options == {"nameServer": "a:1"}
    assert "secret" not in repr(given).replace("secret_key", "")


def session(master: str) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, defaultParallelism=40))


def test_options_of_the_format_are_passed_on() -> None:
    given = PipelineOptions(name_server="a:1", tls_ca="ca.pem", format_options=("retryTimeout=5m", "sql=a = 'b'"))
    own = {"subscribe": "orders", "startingOffsets": "earliest"}

    read = given.topic_read_options(session("local[2]"), own, is_stream=True)

    assert read == {
        "nameServer": "a:1",
        "tlsTrustCertPath": "ca.pem",
        **own,
        "retryTimeout": "5m",
        "sql": "a = 'b'",
    }
    later = PipelineOptions(format_options=("startingtimestamp=5",)).topic_read_options(
        session("local"), own, is_stream=True
    )
    assert (later["startingtimestamp"], "startingOffsets" in later) == ("5", False)


def test_min_partitions_is_the_number_of_cluster_cores_unless_given() -> None:
    given = PipelineOptions(format_options=("MINPARTITIONS=7",))
    own = {"subscribe": "orders"}

    assert PipelineOptions().topic_read_options(session("yarn"), own, is_stream=False)["minPartitions"] == "40"
    assert "minPartitions" not in PipelineOptions().topic_read_options(session("local[*]"), own, is_stream=False)
    read = given.topic_read_options(session("yarn"), own, is_stream=True)
    assert read == {**given.connection_options, **own, "MINPARTITIONS": "7"}


def test_clients_without_spark_use_the_same_connection_options() -> None:
    given = PipelineOptions(name_server="a:1", access_key="me", secret_key="secret", tls=True)
    more = replace(given, format_options=("securityToken=token", "rocketmq.mqClientApiTimeout=9s"))

    found = more.client_options()

    assert (found.namesrv_addr, found.access_key, found.security_token) == ("a:1", "me", "token")
    assert found.mq_client_api_timeout_seconds == 9
    assert found.tls


def test_options_set_by_the_pipeline_cannot_be_overridden() -> None:
    with pytest.raises(OptionError, match="option is 'failOnDataLoss': give KEY=VALUE"):
        PipelineOptions(format_options=("failOnDataLoss",))
    given = PipelineOptions(format_options=("Subscribe=other",))
    with pytest.raises(OptionError, match="option Subscribe is set to 'orders' by the pipeline: leave it out"):
        given.topic_read_options(session("local"), {"subscribe": "orders"}, is_stream=True)


def test_unknown_format_options_are_reported_before_spark_is_used() -> None:
    given = PipelineOptions(format_options=("minPartition=3",))
    with pytest.raises(OptionError, match="option minpartition is unknown: is minPartitions meant"):
        given.topic_read_options(session("local"), {"subscribe": "orders"}, is_stream=True)


def test_times_are_iso_text_or_milliseconds() -> None:
    texts = ("1769860800000", "2026-01-31T12:00:00", "2026-01-31T13:00:00+01:00")
    assert {parse_timestamp(text, "since") for text in texts} == {1769860800000}
    with pytest.raises(OptionError, match="since is 'noon': give 2026"):
        parse_timestamp("noon", "since")


def test_triggers_have_the_syntax_of_spark() -> None:
    assert parse_trigger("availablenow") == {"availableNow": True}
    for text in ("5 seconds", "1 minute", "1 hour 30 minutes", "100 milliseconds"):
        assert parse_trigger(text) == {"processingTime": text}
    for wrong in ("soon", "5 apples", "seconds", "5", ""):
        with pytest.raises(OptionError, match=f"trigger is '{wrong}': give availableNow, or an interval such as"):
            parse_trigger(wrong)
