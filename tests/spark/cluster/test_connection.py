"""Connection options and shared sessions."""

import pytest

from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.spark.cluster.connection import (
    RETRY_MILLIS,
    ConnectionOptions,
    parse_connection_options,
    release_sessions,
    shared_session,
)
from kerolox.spark.option_parser import OptionError, OptionParser


def test_option_synonyms_are_equivalent() -> None:
    short = {
        "nameServer": "a:1;b:2",
        "accessKey": "k",
        "secretKey": "s",
        "securityToken": "t",
        "tls": "true",
        "tlsTrustCertPath": "ca",
        "tlsCertPath": "c",
        "tlsKeyPath": "p",
        "retryTimeout": "7s",
    }
    long = {
        "rocketmq.namesrv.addr": "a:1;b:2",
        "rocketmq.accessKey": "k",
        "rocketmq.secretKey": "s",
        "rocketmq.securityToken": "t",
        "rocketmq.tls.enable": "true",
        "rocketmq.tls.client.trustCertPath": "ca",
        "rocketmq.tls.client.certPath": "c",
        "rocketmq.tls.client.keyPath": "p",
        "rocketmq.retryTimeoutMillis": "7000",
    }

    assert parse_connection_options(OptionParser(short)) == parse_connection_options(OptionParser(long))


def test_rocketmq_options_are_passed_through() -> None:
    given = {
        "nameServer": "a:1",
        "rocketmq.clientIP": "10.0.0.1",
        "rocketmq.instanceName": "spark",
        "rocketmq.unitName": "u",
        "rocketmq.connectTimeoutMillis": "100",
        "rocketmq.mqClientApiTimeout": "200",
        "rocketmq.pollNameServerInterval": "5s",
        "rocketmq.heartbeatBrokerInterval": "7000",
    }

    options = parse_connection_options(OptionParser(given)).client_options()

    assert options.client_id.startswith("10.0.0.1@spark#")
    assert options.client_id.endswith("@u")
    assert (options.connect_timeout_seconds, options.mq_client_api_timeout_seconds) == (0.1, 0.2)
    assert (options.poll_name_server_interval_seconds, options.heartbeat_broker_interval_seconds) == (5.0, 7.0)
    assert parse_connection_options(OptionParser({"nameServer": "a:1", "rocketmq.useTLS": "true"})).tls


def test_name_servers_may_be_looked_up_by_http_as_in_java() -> None:
    asked = {"rocketmq.namesrv.domain": "names.example"}
    other = {"rocketmq.namesrv.domain": "names.example:80", "rocketmq.namesrv.domain.subgroup": "blue"}

    options = parse_connection_options(OptionParser(asked)).client_options()

    assert (options.namesrv_url, options.name_servers) == ("http://names.example:8080/rocketmq/nsaddr", [])
    assert (
        parse_connection_options(OptionParser(other)).client_options().namesrv_url
        == "http://names.example:80/rocketmq/blue"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option nameServer is missing"),
        ({"nameServer": "a:1", "rocketmq.namesrv.domain": "b"}, "nameServer and rocketmq.namesrv.domain contradict"),
        ({"nameServer": "a:1", "rocketmq.namesrv.domain.subgroup": "b"}, "no meaning without rocketmq.namesrv.domain"),
        ({"rocketmq.namesrv.domain": ":80"}, "option rocketmq.namesrv.domain: "),
        ({"nameServer": "a:b:c"}, "option nameServer: "),
    ],
)
def test_invalid_name_servers_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_connection_options(OptionParser(given))


def test_a_certificate_enables_tls() -> None:
    assert parse_connection_options(OptionParser({"nameServer": "a:1", "tlsTrustCertPath": "ca"})).tls
    assert not parse_connection_options(OptionParser({"nameServer": "a:1"})).tls
    assert parse_connection_options(OptionParser({"nameServer": "a:1"})).retry_millis == RETRY_MILLIS


def test_secrets_are_not_shown() -> None:
    connect = ConnectionOptions(name_servers="a:1", access_key="me", secret_key="hidden", security_token="also hidden")

    assert "hidden" not in repr(connect)


def test_a_process_shares_one_session_per_options_until_it_is_released() -> None:
    connect = ConnectionOptions(name_servers="127.0.0.1:1")
    session = shared_session(connect)
    assert shared_session(connect) is session

    release_sessions()

    assert shared_session(connect) is not session
    release_sessions()


@pytest.fixture(autouse=True)
def _loop() -> None:
    LoopThread.current()
