"""How a cluster is reached, as options say it."""

import pytest

from kerolox.client.loop_thread import LoopThread
from kerolox.spark.connecting import RETRY_MILLIS, Connect, connect_of, release_sessions, session_of
from kerolox.spark.given import Given, OptionError


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
        "rocketmq.pollNameServerInterval": "5s",
        "rocketmq.heartbeatBrokerInterval": "7000",
    }

    options = connect_of(Given(given)).client_options()

    assert options.client_id.startswith("10.0.0.1@spark#")
    assert options.client_id.endswith("@u")
    assert (options.connect_timeout_seconds, options.mq_client_api_timeout_seconds) == (0.1, 0.2)
    assert (options.poll_name_server_interval_seconds, options.heartbeat_broker_interval_seconds) == (5.0, 7.0)
    assert connect_of(Given({"nameServer": "a:1", "rocketmq.useTLS": "true"})).tls


def test_name_servers_may_be_asked_for_as_java_s_clients_do() -> None:
    asked = {"rocketmq.namesrv.domain": "names.example"}
    other = {"rocketmq.namesrv.domain": "names.example:80", "rocketmq.namesrv.domain.subgroup": "blue"}

    options = connect_of(Given(asked)).client_options()

    assert (options.namesrv_url, options.name_servers) == ("http://names.example:8080/rocketmq/nsaddr", [])
    assert connect_of(Given(other)).client_options().namesrv_url == "http://names.example:80/rocketmq/blue"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "option nameServer is missing"),
        ({"nameServer": "a:1", "rocketmq.namesrv.domain": "b"}, "nameServer and rocketmq.namesrv.domain contradict"),
        ({"nameServer": "a:1", "rocketmq.namesrv.domain.subgroup": "b"}, "no meaning without rocketmq.namesrv.domain"),
        ({"rocketmq.namesrv.domain": ":80"}, "option rocketmq.namesrv.domain: "),
        ({"nameServer": "a:b:c"}, "option nameServer: "),
    ],
)
def test_name_servers_that_cannot_be_are_refused(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        connect_of(Given(given))


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
