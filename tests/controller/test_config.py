"""Settings of controllers: RocketMQ's keys, and clear sentences over those that contradict each other."""

import pytest

from kerolox.controller import ControllerConfig
from kerolox.controller.config import Peers
from kerolox.errors import ConfigurationError


def settings(**properties: str) -> ControllerConfig:
    return ControllerConfig.from_properties(properties)


def test_a_file_of_rocketmq_for_one_controller_is_accepted() -> None:
    config = settings(
        controllerDLegerGroup="group1",
        controllerDLegerPeers="n0-127.0.0.1:9870",
        controllerDLegerSelfId="n0",
        controllerStorePath="/tmp/controller",
        enableElectUncleanMaster="false",
        notifyBrokerRoleChanged="true",
    )
    config.validate()

    assert (config.port(), config.group) == (9870, "group1")
    assert config.peers() == Peers({"n0": "127.0.0.1:9870"}, "n0")
    assert config.extra == {}


def test_the_keys_of_jraft_are_accepted() -> None:
    config = settings(
        controllerType="jRaft",
        jRaftGroupId="g",
        jRaftServerId="10.0.0.2:9880",
        jRaftInitConf="10.0.0.1:9880,10.0.0.2:9880",
        jRaftControllerRPCAddr="10.0.0.1:9770,10.0.0.2:9771",
        controllerStorage="etcd",
        etcdEndpoints="http://10.0.0.1:2379;http://10.0.0.2:2379",
    )
    config.validate()

    assert (config.port(), config.group) == (9771, "g")
    assert config.endpoints() == ["http://10.0.0.1:2379", "http://10.0.0.2:2379"]
    assert config.extra == {}


def test_without_peers_there_is_one_controller_on_its_listen_port() -> None:
    for config in (settings(), settings(controllerType="jRaft")):
        config.validate()
        assert (config.peers(), config.port()) == (None, 9878)


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"controllerDLegerPeers": "n0-h:1;n1-h:2;n2-h:3"}, "3 controllers are configured, and a local file cannot"),
        ({"controllerDLegerPeers": "n1-h:2"}, "controllerDLegerSelfId=n0 is not among controllerDLegerPeers"),
        ({"controllerDLegerPeers": "n0"}, "n0- is not ID-HOST:PORT"),
        ({"controllerStorage": "etcd"}, "needs etcdEndpoints"),
        ({"bindAddress": "0.0.0.0"}, "needs controllerDLegerPeers=n0-HOST:PORT"),
        (
            {"controllerType": "jRaft", "jRaftControllerRPCAddr": "h:1,h:2", "jRaftInitConf": "h:3"},
            "must have as many entries",
        ),
    ],
)
def test_a_contradiction_is_explained(properties: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        settings(**properties).validate()


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="expected DLedger, jRaft"):
        settings(controllerType="paxos")


def test_a_missing_certificate_is_reported() -> None:
    assert settings().etcd_tls() is None
    with pytest.raises(ConfigurationError, match="etcdCaPath"):
        settings(etcdCaPath="/nowhere/ca.pem").etcd_tls()
