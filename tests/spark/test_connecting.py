"""How a cluster is reached, as options say it."""

import pytest

from kerolox.client.loop_thread import LoopThread
from kerolox.spark.connecting import RETRY_MILLIS, Connect, connect_of, release_sessions, session_of
from kerolox.spark.given import Given


def test_both_ways_to_name_an_option_mean_the_same() -> None:
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

    assert connect_of(Given(short)) == connect_of(Given(long))


def test_what_is_rocketmqs_own_is_passed_through() -> None:
    given = {
        "nameServer": "a:1",
        "rocketmq.clientIP": "10.0.0.1",
        "rocketmq.instanceName": "spark",
        "rocketmq.unitName": "u",
        "rocketmq.connectTimeoutMillis": "100",
        "rocketmq.mqClientApiTimeout": "200",
    }

    options = connect_of(Given(given)).client_options()

    assert options.client_id.startswith("10.0.0.1@spark#")
    assert options.client_id.endswith("@u")
    assert (options.connect_timeout_seconds, options.mq_client_api_timeout_seconds) == (0.1, 0.2)


def test_a_certificate_asks_for_tls() -> None:
    assert connect_of(Given({"nameServer": "a:1", "tlsTrustCertPath": "ca"})).tls
    assert not connect_of(Given({"nameServer": "a:1"})).tls
    assert connect_of(Given({"nameServer": "a:1"})).retry_millis == RETRY_MILLIS


def test_secrets_are_not_shown() -> None:
    connect = Connect(name_servers="a:1", access_key="me", secret_key="hidden", security_token="also hidden")

    assert "hidden" not in repr(connect)


def test_a_process_has_one_session_for_the_same_options_until_it_lets_go() -> None:
    connect = Connect(name_servers="127.0.0.1:1")
    session = session_of(connect)
    assert session_of(connect) is session

    release_sessions()

    assert session_of(connect) is not session
    release_sessions()


@pytest.fixture(autouse=True)
def _loop() -> None:
    LoopThread.current()
