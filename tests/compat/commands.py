"""The mqadmin commands for a NameServer, ordered so that each prepares the next."""

from __future__ import annotations

from dataclasses import dataclass

from tests.compat.stage import CLUSTER


@dataclass(frozen=True, slots=True)
class Step:
    """One command. One that only `reads` may be repeated until both sides have received all registrations.

    What it prints is waited for `until` it has a line like this, a regular expression.
    """

    arguments: tuple[str, ...]
    reads: bool = True
    until: str | None = None

    @property
    def title(self) -> str:
        return f"mqadmin {' '.join(self.arguments)}"


def short_steps(topic: str) -> tuple[Step, ...]:
    """A few commands that cover the route table."""
    return (
        Step(("clusterList",)),
        _writing("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4"),
        Step(("topicRoute", "-t", topic)),
        Step(("topicClusterList", "-t", topic)),
        Step(("topicList",)),
        _writing("deleteTopic", "-c", CLUSTER, "-t", topic),
        Step(("topicRoute", "-t", topic)),
    )


def route_steps(topic: str, broker_name: str) -> tuple[Step, ...]:
    """All commands that read or change routes."""
    return (
        Step(("clusterList",)),
        Step(("clusterList", "-m")),
        _writing("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4"),
        Step(("topicList",)),
        Step(("topicList", "-c")),
        Step(("topicRoute", "-t", topic)),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicRoute", "-t", "no_such_topic")),
        Step(("topicClusterList", "-t", topic)),
        Step(("topicClusterList", "-t", "no_such_topic")),
        Step(("topicStatus", "-t", topic)),
        Step(("allocateMQ", "-t", topic, "-i", "192.0.2.1,192.0.2.2")),
        Step(("statsAll", "-t", topic)),
        _writing("wipeWritePerm", "-b", broker_name),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicRoute", "-t", "TBW102", "-l")),
        _writing("addWritePerm", "-b", broker_name),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicRoute", "-t", "TBW102", "-l")),
        _writing("wipeWritePerm", "-b", "no_such_broker"),
        _writing("addWritePerm", "-b", "no_such_broker"),
        _writing("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4", "-p", "4"),
        _writing("updateTopicPerm", "-c", CLUSTER, "-t", topic, "-p", "4"),
        Step(("topicRoute", "-t", topic)),
        _writing("deleteTopic", "-c", CLUSTER, "-t", topic),
        Step(("topicRoute", "-t", topic)),
        Step(("topicStatus", "-t", topic)),
        _writing("deleteTopic", "-c", CLUSTER, "-t", "no_such_topic"),
        _writing("deleteTopic", "-c", "NoSuchCluster", "-t", topic),
        _writing("cleanUnusedTopic", "-c", CLUSTER),
    )


def configuration_steps(topic: str, broker_address: str) -> tuple[Step, ...]:
    """All commands that read or change key-value and order configuration."""
    return (
        _writing("updateKvConfig", "-s", "compat", "-k", "colour", "-v", "blue"),
        _writing("updateKvConfig", "-s", "compat", "-k", "colour", "-v", 'green grass = {"a":1}'),
        _writing("deleteKvConfig", "-s", "compat", "-k", "colour"),
        _writing("deleteKvConfig", "-s", "compat", "-k", "no_such_key"),
        _writing("deleteKvConfig", "-s", "no_such_space", "-k", "colour"),
        _writing("updateTopic", "-c", CLUSTER, "-t", topic, "-o", "true"),
        _writing("updateTopic", "-b", broker_address, "-t", f"{topic}_one", "-o", "true"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        Step(("updateOrderConf", "-t", f"{topic}_one", "-m", "get")),
        _writing("updateOrderConf", "-t", topic, "-m", "put", "-v", "broker-four:3"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        Step(("topicRoute", "-t", topic)),
        _writing("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"),
        Step(("topicRoute", "-t", topic)),
        _writing("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false"),
        Step(("topicRoute", "-t", topic)),
        _writing("updateOrderConf", "-t", topic, "-m", "delete"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        _writing("updateOrderConf", "-t", "no_such_topic", "-m", "delete"),
        _writing("deleteTopic", "-c", CLUSTER, "-t", topic),
        _writing("deleteTopic", "-c", CLUSTER, "-t", f"{topic}_one"),
    )


def broker_steps(group: str) -> tuple[Step, ...]:
    """Commands for brokers, which find them through the NameServer."""
    return (
        _writing("updateSubGroup", "-c", CLUSTER, "-g", group),
        Step(("getConsumerConfig", "-g", group)),
        _writing("updateBrokerConfig", "-c", CLUSTER, "-k", "flushDelayOffsetInterval", "-v", "10000"),
        _writing("cleanExpiredCQ", "-c", CLUSTER),
        _writing("deleteExpiredCommitLog", "-c", CLUSTER),
        Step(("consumerProgress", "-g", group)),
        _writing("deleteSubGroup", "-c", CLUSTER, "-g", group),
    )


def static_topic_steps(topic: str) -> tuple[Step, ...]:
    """Commands for a static topic, whose queue mapping is part of the route in 5.x."""
    return (
        Step(("topicRoute", "-t", topic)),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicStatus", "-t", topic)),
        _writing("deleteTopic", "-c", CLUSTER, "-t", topic),
        Step(("topicRoute", "-t", topic)),
    )


def _writing(*arguments: str) -> Step:
    return Step(arguments, reads=False)
