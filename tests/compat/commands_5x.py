"""Script of mqadmin commands and options introduced with 5.x, for Java's tool of 5.5.0 and ours."""

from __future__ import annotations

import json
from pathlib import Path

from tests.compat.broker_commands import ADDRESS, CLUSTER, GROUP, OFFSET_ID, UNIQUE
from tests.compat.commands import Step

VERSION = "5.5.0"

# Files with write_list_files of topics and groups: valid, empty, not JSON, and missing.
TOPICS, GROUPS, EMPTY, BROKEN, MISSING = "{topics}", "{groups}", "{empty}", "{broken}", "{missing}"
# A slave broker.
SLAVE = "{slave}"
_RETRIES = '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}}'
_GROWING = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1000,"max":60000,"multiplier":3}}'


def write_list_files(directory: Path) -> dict[str, str]:
    """Write the files; return the path for each placeholder."""
    topics = [{"topicName": f"listed_{number}", "readQueueNums": number, "writeQueueNums": 2} for number in (1, 2)]
    groups = [{"groupName": f"listed_group_{number}", "retryMaxTimes": number} for number in (1, 2)]
    texts = {TOPICS: json.dumps(topics), GROUPS: json.dumps(groups), EMPTY: "[]", BROKEN: "[{", MISSING: None}
    found = {name: directory / f"{name.strip('{}')}.json" for name in texts}
    for name, text in texts.items():
        if text is not None:
            found[name].write_text(text)
    return {name: str(path) for name, path in found.items()}


def steps_5x(topic: str) -> tuple[Step, ...]:
    """All commands and options of 5.x, except replication."""
    return (*_help_steps(), *_status_steps(topic), *_create_steps(topic), *_offset_steps(topic), *_account_steps())


def replication_steps() -> tuple[Step, ...]:
    """Commands for a broker with a slave."""
    return (
        Step(("haStatus", "-b", ADDRESS), until=r" OK \d+$"),
        Step(("haStatus", "-b", SLAVE)),
        Step(("haStatus", "-c", CLUSTER)),
        _write_step("updateBrokerConfig", "-c", CLUSTER, "-a", "true", "-k", "flushDelayOffsetInterval", "-v", "10000"),
    )


def _help_steps() -> tuple[Step, ...]:
    names = (
        *("haStatus", "updateTopicList", "updateSubGroupList", "setConsumeMode"),
        *("getSyncStateSet", "getBrokerEpoch", "getControllerMetaData", "getControllerConfig"),
        *("updateControllerConfig", "electMaster", "cleanBrokerMetadata"),
    )
    return tuple(Step((name, "-h")) for name in names)


def _status_steps(topic: str) -> tuple[Step, ...]:
    return (
        Step(("haStatus", "-b", ADDRESS)),
        Step(("haStatus", "-c", CLUSTER)),
        Step(("haStatus", "-c", "NoSuchCluster")),
        Step(("clusterList", "-c", CLUSTER)),
        Step(("clusterList", "-c", "NoSuchCluster")),
        Step(("clusterList", "-m", "-c", CLUSTER)),
        Step(("consumerProgress", "-g", GROUP, "-t", topic), until="^Consume Diff Total: 0$|^Diff Total: 0$"),
        Step(("consumerProgress", "-g", GROUP, "-t", "no_such_topic")),
        Step(("queryMsgById", "-i", OFFSET_ID, "-t", topic)),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3", "-b", "0", "-e", "4102444800000")),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3", "-b", "0", "-e", "1")),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3", "-m", "1")),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3", "-c", "DefaultCluster")),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3", "-p", "K")),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3", "-l", "no_such_last_key")),
        Step(("queryMsgTraceById", "-i", UNIQUE, "-b", "0", "-e", "4102444800000", "-c", "32"), until="^Sub "),
    )


def _create_steps(topic: str) -> tuple[Step, ...]:
    return (
        _write_step("updateTopic", "-b", ADDRESS, "-t", f"{topic}_fifo", "-a", "+message.type=FIFO"),
        _write_step("updateTopic", "-c", CLUSTER, "-t", f"{topic}_wide", "-a", "+message.type=DELAY"),
        _write_step("updateTopic", "-b", ADDRESS, "-t", f"{topic}_wide", "-a", "-message.type"),
        _write_step("updateTopic", "-b", ADDRESS, "-t", f"{topic}_odd", "-a", "message.type=FIFO"),
        _write_step("updateTopic", "-b", ADDRESS, "-t", f"{topic}_odd", "-a", "+no.such.attribute=1"),
        _write_step("updateTopicList", "-b", ADDRESS, "-f", TOPICS),
        _write_step("updateTopicList", "-c", CLUSTER, "-f", TOPICS),
        _write_step("updateTopicList", "-b", ADDRESS, "-f", EMPTY),
        _write_step("updateTopicList", "-b", ADDRESS, "-f", BROKEN),
        _write_step("updateTopicList", "-b", ADDRESS, "-f", MISSING),
        Step(("topicRoute", "-t", "listed_2"), until='"perm":6'),
        _write_step("updateSubGroup", "-b", ADDRESS, "-g", "orderly_group", "-o", "true"),
        _write_step("updateSubGroup", "-c", CLUSTER, "-g", "patient_group", "-p", _RETRIES),
        _write_step("updateSubGroup", "-c", CLUSTER, "-g", "patient_group", "-p", _GROWING),
        _write_step("updateSubGroup", "-b", ADDRESS, "-g", "odd_group", "-p", "{"),
        _write_step("updateSubGroupList", "-b", ADDRESS, "-f", GROUPS),
        _write_step("updateSubGroupList", "-c", CLUSTER, "-f", GROUPS),
        _write_step("updateSubGroupList", "-b", ADDRESS, "-f", EMPTY),
        _write_step("updateSubGroupList", "-b", ADDRESS, "-f", BROKEN),
        _write_step("updateSubGroupList", "-b", ADDRESS, "-f", MISSING),
    )


def _offset_steps(topic: str) -> tuple[Step, ...]:
    mode = ("setConsumeMode", "-t", topic, "-g", "orderly_group")
    reset = ("resetOffsetByTime", "-g", GROUP, "-t", topic, "-b", ADDRESS, "-q", "0")
    return (
        _write_step(*mode, "-b", ADDRESS, "-m", "POP", "-q", "2"),
        _write_step(*mode, "-c", CLUSTER, "-m", "PULL"),
        _write_step(*mode, "-b", ADDRESS, "-m", "SHOVE"),
        _write_step(*reset, "-s", "now"),
        _write_step(*reset, "-s", "now", "-o", "2"),
        _write_step("updateBrokerConfig", "-c", CLUSTER, "-a", "true", "-k", "flushDelayOffsetInterval", "-v", "10000"),
        _write_step("updateBrokerConfig", "-b", ADDRESS, "-a", "true", "-k", "flushDelayOffsetInterval", "-v", "10000"),
    )


def _account_steps() -> tuple[Step, ...]:
    """Account commands on brokers without ACL."""
    policy = ("-s", "User:alice", "-r", "Topic:orders", "-a", "Pub,Sub", "-d", "Allow")
    return (
        _write_step("createUser", "-b", ADDRESS, "-u", "alice", "-p", "12345678"),
        _write_step("updateUser", "-b", ADDRESS, "-u", "alice", "-s", "disable"),
        Step(("getUser", "-b", ADDRESS, "-u", "alice")),
        Step(("listUser", "-b", ADDRESS)),
        Step(("listUser", "-c", CLUSTER)),
        _write_step("copyUser", "-f", ADDRESS, "-t", ADDRESS, "-u", "alice"),
        _write_step("deleteUser", "-b", ADDRESS, "-u", "alice"),
        _write_step("createAcl", "-b", ADDRESS, *policy),
        _write_step("updateAcl", "-b", ADDRESS, *policy),
        Step(("getAcl", "-b", ADDRESS, "-s", "User:alice")),
        Step(("listAcl", "-b", ADDRESS)),
        Step(("listAcl", "-c", CLUSTER)),
        _write_step("copyAcl", "-f", ADDRESS, "-t", ADDRESS, "-s", "User:alice"),
        _write_step("deleteAcl", "-b", ADDRESS, "-s", "User:alice"),
    )


def _write_step(*arguments: str) -> Step:
    return Step(arguments, reads=False)
