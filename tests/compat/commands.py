"""The mqadmin commands for a NameServer, ordered so that each prepares the next."""

from __future__ import annotations

from dataclasses import dataclass

from tests.compat.deployment import CLUSTER


@dataclass(frozen=True, slots=True)
class Step:
    """One command. One that only `reads` may be repeated until both sides have received all registrations.

    It is also repeated until its output has a line that matches the regular expression `until`.
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
        _write_step("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4"),
        Step(("topicRoute", "-t", topic)),
        Step(("topicClusterList", "-t", topic)),
        Step(("topicList",)),
        _write_step("deleteTopic", "-c", CLUSTER, "-t", topic),
        Step(("topicRoute", "-t", topic)),
    )


def route_steps(topic: str, broker_name: str) -> tuple[Step, ...]:
    """All commands that read or change routes."""
    return (
        Step(("clusterList",)),
        Step(("clusterList", "-m")),
        _write_step("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4"),
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
        _write_step("wipeWritePerm", "-b", broker_name),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicRoute", "-t", "TBW102", "-l")),
        _write_step("addWritePerm", "-b", broker_name),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicRoute", "-t", "TBW102", "-l")),
        _write_step("wipeWritePerm", "-b", "no_such_broker"),
        _write_step("addWritePerm", "-b", "no_such_broker"),
        _write_step("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4", "-p", "4"),
        _write_step("updateTopicPerm", "-c", CLUSTER, "-t", topic, "-p", "4"),
        Step(("topicRoute", "-t", topic)),
        _write_step("deleteTopic", "-c", CLUSTER, "-t", topic),
        Step(("topicRoute", "-t", topic)),
        Step(("topicStatus", "-t", topic)),
        _write_step("deleteTopic", "-c", CLUSTER, "-t", "no_such_topic"),
        _write_step("deleteTopic", "-c", "NoSuchCluster", "-t", topic),
        _write_step("cleanUnusedTopic", "-c", CLUSTER),
    )


def configuration_steps(topic: str, broker_address: str) -> tuple[Step, ...]:
    """All commands that read or change key-value and order configuration."""
    return (
        _write_step("updateKvConfig", "-s", "compat", "-k", "colour", "-v", "blue"),
        _write_step("updateKvConfig", "-s", "compat", "-k", "colour", "-v", 'green grass = {"a":1}'),
        _write_step("deleteKvConfig", "-s", "compat", "-k", "colour"),
        _write_step("deleteKvConfig", "-s", "compat", "-k", "no_such_key"),
        _write_step("deleteKvConfig", "-s", "no_such_space", "-k", "colour"),
        _write_step("updateTopic", "-c", CLUSTER, "-t", topic, "-o", "true"),
        _write_step("updateTopic", "-b", broker_address, "-t", f"{topic}_one", "-o", "true"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        Step(("updateOrderConf", "-t", f"{topic}_one", "-m", "get")),
        _write_step("updateOrderConf", "-t", topic, "-m", "put", "-v", "broker-four:3"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        Step(("topicRoute", "-t", topic)),
        _write_step("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"),
        Step(("topicRoute", "-t", topic)),
        _write_step("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false"),
        Step(("topicRoute", "-t", topic)),
        _write_step("updateOrderConf", "-t", topic, "-m", "delete"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        _write_step("updateOrderConf", "-t", "no_such_topic", "-m", "delete"),
        _write_step("deleteTopic", "-c", CLUSTER, "-t", topic),
        _write_step("deleteTopic", "-c", CLUSTER, "-t", f"{topic}_one"),
    )


def broker_steps(group: str) -> tuple[Step, ...]:
    """Commands for brokers, which the tool finds through the NameServer."""
    return (
        _write_step("updateSubGroup", "-c", CLUSTER, "-g", group),
        Step(("getConsumerConfig", "-g", group)),
        _write_step("updateBrokerConfig", "-c", CLUSTER, "-k", "flushDelayOffsetInterval", "-v", "10000"),
        _write_step("cleanExpiredCQ", "-c", CLUSTER),
        _write_step("deleteExpiredCommitLog", "-c", CLUSTER),
        Step(("consumerProgress", "-g", group)),
        _write_step("deleteSubGroup", "-c", CLUSTER, "-g", group),
    )


def static_topic_steps(topic: str) -> tuple[Step, ...]:
    """Commands for a static topic, whose queue mapping is part of the route in 5.x."""
    return (
        Step(("topicRoute", "-t", topic)),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicStatus", "-t", topic)),
        _write_step("deleteTopic", "-c", CLUSTER, "-t", topic),
        Step(("topicRoute", "-t", topic)),
    )


def _write_step(*arguments: str) -> Step:
    return Step(arguments, reads=False)
