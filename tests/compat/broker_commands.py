"""All mqadmin commands of 4.9.8, as a script that runs on Apache's brokers and on ours."""

from __future__ import annotations

from tests.compat.commands import Step

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
GROUP = "compat_consumer"
PRODUCERS = "compat_producer"
OTHER_GROUP = "other_consumer"
WIDE_GROUP = "wide_consumer"
MESSAGES = 16
# Client id of the consumer (Attend.java).
CLIENT = "192.0.2.7@attendant"

# Placeholders for values that differ between brokers: the address, the unique key and the offset id of the first
# message, the offset id of the message in the topic with one queue, and the directory for files.
ADDRESS, UNIQUE, OFFSET_ID, ONE_QUEUE_ID, EXPORT = "{address}", "{unique}", "{offset_id}", "{one_queue_id}", "{export}"
# Commands that fail when they run a second time in the same JVM.
ONCE = {"sendMessage", "consumeMessage", "queryMsgByUniqueKey", "brokerConsumeStats"}
# Commands that never end → the line that ends their first round of output.
ENDLESS = {
    Step(("clusterRT", "-a", "2", "-s", "16", "-i", "1")): rf"{CLUSTER} +{BROKER} ",
    Step(("startMonitoring",)): r"\[MONITOR\] =+endRound",
}


def steps_with_clients(topic: str) -> tuple[Step, ...]:
    """Commands that run while a client is connected, which has sent and consumed sixteen messages of the topic."""
    return (
        *_status_steps(topic),
        *_create_steps(topic),
        *_client_steps(topic),
        *_message_steps(topic),
        *_export_steps(),
    )


def steps_without_clients(topic: str) -> tuple[Step, ...]:
    """Commands that run after the client has disconnected."""
    return (
        *_client_left_steps(topic),
        *_send_steps(topic),
        *_offset_steps(topic),
        *_maintenance_steps(topic),
        *_configuration_steps(topic),
        *_delete_steps(topic),
    )


def _status_steps(topic: str) -> tuple[Step, ...]:
    return (
        # First: Java includes messages older than a minute only after ten minutes.
        Step(("statsAll", "-t", topic), until=rf"^{topic} {GROUP} 0 .* {MESSAGES} {MESSAGES}$"),
        Step(("statsAll", "-a")),
        Step(("statsAll",)),
        Step(("clusterList",)),
        Step(("clusterList", "-m")),
        Step(("topicList",)),
        Step(("topicList", "-c")),
        Step(("topicStatus", "-t", topic)),
        Step(("topicStatus", "-t", "no_such_topic")),
        Step(("topicRoute", "-t", topic)),
        Step(("topicRoute", "-t", topic, "-l")),
        Step(("topicClusterList", "-t", topic)),
        Step(("brokerStatus", "-b", ADDRESS)),
        Step(("brokerStatus", "-c", CLUSTER)),
        Step(("getBrokerConfig", "-b", ADDRESS)),
        Step(("getBrokerConfig", "-c", CLUSTER)),
    )


def _create_steps(topic: str) -> tuple[Step, ...]:
    return (
        _write_step("updateTopic", "-b", ADDRESS, "-t", f"{topic}_made", "-r", "2", "-w", "2"),
        _write_step("updateTopic", "-c", CLUSTER, "-t", f"{topic}_wide", "-r", "2", "-w", "2"),
        _write_step("updateTopic", "-b", ADDRESS, "-t", "no good name"),
        _write_step("updateTopicPerm", "-b", ADDRESS, "-t", f"{topic}_made", "-p", "4"),
        _write_step("updateTopicPerm", "-c", CLUSTER, "-t", f"{topic}_wide", "-p", "4"),
        Step(("topicRoute", "-t", f"{topic}_made"), until='"perm":4'),
        _write_step("updateSubGroup", "-b", ADDRESS, "-g", OTHER_GROUP, "-r", "3"),
        _write_step("updateSubGroup", "-c", CLUSTER, "-g", WIDE_GROUP),
        Step(("getConsumerConfig", "-g", OTHER_GROUP)),
    )


def _client_steps(topic: str) -> tuple[Step, ...]:
    return (
        Step(("consumerProgress", "-g", GROUP), until="^Diff Total: 0$"),
        Step(("consumerProgress", "-g", GROUP, "-s", "true")),
        Step(("consumerProgress", "-g", "no_such_group")),
        Step(("consumerProgress",)),
        Step(("brokerConsumeStats", "-b", ADDRESS)),
        Step(("brokerConsumeStats", "-b", ADDRESS, "-o", "true")),
        Step(("consumerConnection", "-g", GROUP)),
        Step(("consumerConnection", "-g", GROUP, "-b", ADDRESS)),
        Step(("producerConnection", "-g", PRODUCERS, "-t", topic)),
        Step(("producerConnection", "-g", "no_such_producer", "-t", topic)),
        Step(("producer", "-b", ADDRESS)),
        Step(("consumerStatus", "-g", GROUP)),
        Step(("consumerStatus", "-g", GROUP, "-i", CLIENT)),
        Step(("consumerStatus", "-g", GROUP, "-i", CLIENT, "-s")),
        Step(("consumerStatus", "-g", GROUP, "-i", "nobody")),
        Step(("consumerStatus", "-g", "no_such_group")),
        _write_step("cloneGroupOffset", "-s", GROUP, "-d", OTHER_GROUP, "-t", topic),
        # The group is already at this offset, so the reset does not affect the following commands.
        _write_step("resetOffsetByTime", "-g", GROUP, "-t", topic, "-s", "now"),
        _write_step("skipAccumulatedMessage", "-g", GROUP, "-t", topic),
    )


def _message_steps(topic: str) -> tuple[Step, ...]:
    return (
        Step(("queryMsgById", "-i", OFFSET_ID)),
        Step(("queryMsgById", "-i", OFFSET_ID, "-g", GROUP, "-d", CLIENT)),
        Step(("queryMsgById", "-i", "00")),
        Step(("queryMsgByUniqueKey", "-i", UNIQUE, "-t", topic)),
        Step(("queryMsgByUniqueKey", "-i", UNIQUE, "-t", topic, "-a")),
        Step(("queryMsgByUniqueKey", "-i", UNIQUE, "-t", topic, "-g", GROUP, "-d", CLIENT)),
        Step(("queryMsgByUniqueKey", "-i", "AC11000100002A9F0000000000000000", "-t", topic)),
        Step(("queryMsgTraceById", "-i", UNIQUE), until="^Sub "),
        Step(("queryMsgTraceById", "-i", "no_such_id")),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3")),
        Step(("queryMsgByKey", "-t", topic, "-k", "no_such_key")),
        Step(("queryMsgByOffset", "-t", topic, "-b", BROKER, "-i", "0", "-o", "0")),
        Step(("queryMsgByOffset", "-t", topic, "-b", BROKER, "-i", "0", "-o", "999")),
        Step(("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "4", "-b", ADDRESS)),
        Step(("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "4", "-b", ADDRESS, "-g", GROUP)),
        Step(("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "4")),
        Step(("queryCq", "-t", topic, "-q", "9", "-i", "0", "-c", "4", "-b", ADDRESS)),
        Step(("printMsg", "-t", topic)),
        Step(("printMsg", "-t", topic, "-d", "true", "-s", "TagA")),
        Step(("printMsg", "-t", topic, "-s", "TagB")),
        Step(("printMsgByQueue", "-t", topic, "-a", BROKER, "-i", "0", "-p", "true", "-d", "true")),
        Step(("printMsgByQueue", "-t", topic, "-a", BROKER, "-i", "0", "-f", "true")),
    )


def _export_steps() -> tuple[Step, ...]:
    return (
        Step(("exportMetadata", "-c", CLUSTER, "-f", EXPORT)),
        Step(("exportMetadata", "-c", CLUSTER, "-t", "-f", EXPORT)),
        Step(("exportMetadata", "-c", CLUSTER, "-g", "-f", EXPORT)),
        Step(("exportMetadata", "-c", CLUSTER, "-t", "-s", "-f", EXPORT)),
        Step(("exportMetadata", "-b", ADDRESS, "-t", "-f", EXPORT)),
        Step(("exportMetadata", "-b", ADDRESS, "-g", "-f", EXPORT)),
        Step(("exportConfigs", "-c", CLUSTER, "-f", EXPORT)),
        Step(("exportMetrics", "-c", CLUSTER, "-f", EXPORT)),
    )


def _client_left_steps(topic: str) -> tuple[Step, ...]:
    return (
        Step(("consumerConnection", "-g", GROUP), until="CODE: 206 "),
        Step(("producerConnection", "-g", PRODUCERS, "-t", topic), until="not exist"),
        Step(("producer", "-b", ADDRESS)),
        Step(("consumerStatus", "-g", GROUP)),
        Step(("consumerProgress", "-g", GROUP)),
        Step(("consumerProgress",)),
    )


def _send_steps(topic: str) -> tuple[Step, ...]:
    return (
        Step(("consumeMessage", "-t", topic, "-g", OTHER_GROUP, "-b", BROKER, "-o", "0", "-i", "0", "-c", "2")),
        Step(("consumeMessage", "-t", topic, "-c", "2")),
        _write_step("sendMessage", "-t", topic, "-p", "by hand", "-k", "hand", "-c", "TagH", "-b", BROKER, "-i", "1"),
        _write_step("sendMsgStatus", "-b", BROKER, "-s", "16", "-c", "2"),
        _write_step("checkMsgSendRT", "-t", topic, "-a", "2", "-s", "16"),
        _write_step("queryMsgById", "-i", ONE_QUEUE_ID, "-s", "true"),
    )


def _offset_steps(topic: str) -> tuple[Step, ...]:
    reset = ("resetOffsetByTime", "-g", GROUP, "-t", topic)
    return (
        _write_step(*reset, "-s", "0"),
        _write_step(*reset, "-s", "now"),
        _write_step(*reset, "-s", "2020-01-01#00:00:00:000", "-f", "false"),
        _write_step(*reset, "-s", "now", "-f", "false"),
        _write_step(*reset, "-s", "0", "-c"),
        _write_step("resetOffsetByTime", "-g", "no_such_group", "-t", topic, "-s", "0"),
        _write_step("skipAccumulatedMessage", "-g", GROUP, "-t", topic),
        _write_step("skipAccumulatedMessage", "-g", GROUP, "-t", topic, "-f", "false"),
        _write_step("cloneGroupOffset", "-s", GROUP, "-d", OTHER_GROUP, "-t", topic),
        Step(("consumerProgress", "-g", GROUP, "-t", topic)),
    )


def _maintenance_steps(topic: str) -> tuple[Step, ...]:
    return (
        _write_step("cleanExpiredCQ", "-b", ADDRESS),
        _write_step("cleanExpiredCQ", "-c", CLUSTER),
        _write_step("cleanUnusedTopic", "-b", ADDRESS),
        _write_step("cleanUnusedTopic", "-c", CLUSTER),
        _write_step("deleteExpiredCommitLog", "-b", ADDRESS),
        _write_step("deleteExpiredCommitLog", "-c", CLUSTER),
        Step(("allocateMQ", "-t", topic, "-i", "192.0.2.1,192.0.2.2")),
        _write_step("wipeWritePerm", "-b", BROKER),
        _write_step("addWritePerm", "-b", BROKER),
    )


def _configuration_steps(topic: str) -> tuple[Step, ...]:
    return (
        _write_step("updateBrokerConfig", "-b", ADDRESS, "-k", "flushDelayOffsetInterval", "-v", "10000"),
        _write_step("updateBrokerConfig", "-c", CLUSTER, "-k", "flushDelayOffsetInterval", "-v", "10000"),
        _write_step("updateBrokerConfig", "-b", ADDRESS, "-k", "no_such_key", "-v", "1"),
        _write_step("updateBrokerConfig", "-b", ADDRESS, "-k", "storePathRootDir", "-v", "/nowhere"),
        _write_step("updateOrderConf", "-t", topic, "-m", "put", "-v", f"{BROKER}:4"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        _write_step("updateOrderConf", "-t", topic, "-m", "delete"),
        _write_step("updateKvConfig", "-s", "compat", "-k", "colour", "-v", "blue"),
        _write_step("deleteKvConfig", "-s", "compat", "-k", "colour"),
        Step(("getNamesrvConfig",)),
        _write_step("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"),
        _write_step("updateAclConfig", "-b", ADDRESS, "-a", "RocketMQUser", "-s", "12345678"),
        _write_step("updateAclConfig", "-c", CLUSTER, "-a", "RocketMQUser", "-s", "12345678"),
        _write_step("deleteAclConfig", "-b", ADDRESS, "-a", "RocketMQUser"),
        _write_step("deleteAclConfig", "-c", CLUSTER, "-a", "RocketMQUser"),
        _write_step("updateGlobalWhiteAddr", "-b", ADDRESS, "-g", "192.0.2.1"),
        _write_step("updateGlobalWhiteAddr", "-c", CLUSTER, "-g", "192.0.2.1"),
        _write_step("clusterAclConfigVersion", "-b", ADDRESS),
        _write_step("clusterAclConfigVersion", "-c", CLUSTER),
    )


def _delete_steps(topic: str) -> tuple[Step, ...]:
    return (
        _write_step("deleteSubGroup", "-b", ADDRESS, "-g", OTHER_GROUP),
        _write_step("deleteSubGroup", "-c", CLUSTER, "-g", WIDE_GROUP, "-r", "true"),
        Step(("getConsumerConfig", "-g", WIDE_GROUP)),
        _write_step("deleteTopic", "-c", CLUSTER, "-t", f"{topic}_made"),
        Step(("topicRoute", "-t", f"{topic}_made"), until="CODE: 17 "),
    )


def _write_step(*arguments: str) -> Step:
    return Step(arguments, reads=False)
