"""Every mqadmin command of 4.9.8, as a script that is run on Apache's brokers and on ours."""

from __future__ import annotations

from tests.compat.commands import Step

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
GROUP = "compat_consumer"
PRODUCERS = "compat_producer"
OTHER_GROUP = "other_consumer"
WIDE_GROUP = "wide_consumer"
MESSAGES = 16
# The client that consumes, as it calls itself (Attend.java).
CLIENT = "192.0.2.7@attendant"

# What differs from broker to broker is filled in: its address, the ids of the first message (unique, and by its place)
# and of the one in the topic with one queue, and the directory for files.
ADDRESS, UNIQUE, PLACE, ALONE, EXPORT = "{address}", "{unique}", "{place}", "{alone}", "{export}"
# Commands that leave something behind in their virtual machine and fail when they are run in it again.
ONCE = {"sendMessage", "consumeMessage", "queryMsgByUniqueKey", "brokerConsumeStats"}
# Commands that never end, and the line that says that they have gone round once.
ENDLESS = {
    Step(("clusterRT", "-a", "2", "-s", "16", "-i", "1")): rf"{CLUSTER} +{BROKER} ",
    Step(("startMonitoring",)): r"\[MONITOR\] =+endRound",
}


def attended(topic: str) -> tuple[Step, ...]:
    """While a client is there that has sent sixteen messages to the topic and consumed them."""
    return (*_looks(topic), *_makes(topic), *_clients(topic), *_messages(topic), *_exports())


def deserted(topic: str) -> tuple[Step, ...]:
    """After it has left."""
    return (*_left(topic), *_sends(topic), *_resets(topic), *_maintains(topic), *_settings(topic), *_deletes(topic))


def _looks(topic: str) -> tuple[Step, ...]:
    return (
        # First of all: Java counts what is older than a minute only when ten have passed.
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


def _makes(topic: str) -> tuple[Step, ...]:
    return (
        _writing("updateTopic", "-b", ADDRESS, "-t", f"{topic}_made", "-r", "2", "-w", "2"),
        _writing("updateTopic", "-c", CLUSTER, "-t", f"{topic}_wide", "-r", "2", "-w", "2"),
        _writing("updateTopic", "-b", ADDRESS, "-t", "no good name"),
        _writing("updateTopicPerm", "-b", ADDRESS, "-t", f"{topic}_made", "-p", "4"),
        _writing("updateTopicPerm", "-c", CLUSTER, "-t", f"{topic}_wide", "-p", "4"),
        Step(("topicRoute", "-t", f"{topic}_made"), until='"perm":4'),
        _writing("updateSubGroup", "-b", ADDRESS, "-g", OTHER_GROUP, "-r", "3"),
        _writing("updateSubGroup", "-c", CLUSTER, "-g", WIDE_GROUP),
        Step(("getConsumerConfig", "-g", OTHER_GROUP)),
    )


def _clients(topic: str) -> tuple[Step, ...]:
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
        _writing("cloneGroupOffset", "-s", GROUP, "-d", OTHER_GROUP, "-t", topic),
        # The group stands there already: what its client is told makes no difference to what follows.
        _writing("resetOffsetByTime", "-g", GROUP, "-t", topic, "-s", "now"),
        _writing("skipAccumulatedMessage", "-g", GROUP, "-t", topic),
    )


def _messages(topic: str) -> tuple[Step, ...]:
    return (
        Step(("queryMsgById", "-i", PLACE)),
        Step(("queryMsgById", "-i", PLACE, "-g", GROUP, "-d", CLIENT)),
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


def _exports() -> tuple[Step, ...]:
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


def _left(topic: str) -> tuple[Step, ...]:
    return (
        Step(("consumerConnection", "-g", GROUP), until="CODE: 206 "),
        Step(("producerConnection", "-g", PRODUCERS, "-t", topic), until="not exist"),
        Step(("producer", "-b", ADDRESS)),
        Step(("consumerStatus", "-g", GROUP)),
        Step(("consumerProgress", "-g", GROUP)),
        Step(("consumerProgress",)),
    )


def _sends(topic: str) -> tuple[Step, ...]:
    return (
        Step(("consumeMessage", "-t", topic, "-g", OTHER_GROUP, "-b", BROKER, "-o", "0", "-i", "0", "-c", "2")),
        Step(("consumeMessage", "-t", topic, "-c", "2")),
        _writing("sendMessage", "-t", topic, "-p", "by hand", "-k", "hand", "-c", "TagH", "-b", BROKER, "-i", "1"),
        _writing("sendMsgStatus", "-b", BROKER, "-s", "16", "-c", "2"),
        _writing("checkMsgSendRT", "-t", topic, "-a", "2", "-s", "16"),
        _writing("queryMsgById", "-i", ALONE, "-s", "true"),
    )


def _resets(topic: str) -> tuple[Step, ...]:
    reset = ("resetOffsetByTime", "-g", GROUP, "-t", topic)
    return (
        _writing(*reset, "-s", "0"),
        _writing(*reset, "-s", "now"),
        _writing(*reset, "-s", "2020-01-01#00:00:00:000", "-f", "false"),
        _writing(*reset, "-s", "now", "-f", "false"),
        _writing(*reset, "-s", "0", "-c"),
        _writing("resetOffsetByTime", "-g", "no_such_group", "-t", topic, "-s", "0"),
        _writing("skipAccumulatedMessage", "-g", GROUP, "-t", topic),
        _writing("skipAccumulatedMessage", "-g", GROUP, "-t", topic, "-f", "false"),
        _writing("cloneGroupOffset", "-s", GROUP, "-d", OTHER_GROUP, "-t", topic),
        Step(("consumerProgress", "-g", GROUP, "-t", topic)),
    )


def _maintains(topic: str) -> tuple[Step, ...]:
    return (
        _writing("cleanExpiredCQ", "-b", ADDRESS),
        _writing("cleanExpiredCQ", "-c", CLUSTER),
        _writing("cleanUnusedTopic", "-b", ADDRESS),
        _writing("cleanUnusedTopic", "-c", CLUSTER),
        _writing("deleteExpiredCommitLog", "-b", ADDRESS),
        _writing("deleteExpiredCommitLog", "-c", CLUSTER),
        Step(("allocateMQ", "-t", topic, "-i", "192.0.2.1,192.0.2.2")),
        _writing("wipeWritePerm", "-b", BROKER),
        _writing("addWritePerm", "-b", BROKER),
    )


def _settings(topic: str) -> tuple[Step, ...]:
    return (
        _writing("updateBrokerConfig", "-b", ADDRESS, "-k", "flushDelayOffsetInterval", "-v", "10000"),
        _writing("updateBrokerConfig", "-c", CLUSTER, "-k", "flushDelayOffsetInterval", "-v", "10000"),
        _writing("updateBrokerConfig", "-b", ADDRESS, "-k", "no_such_key", "-v", "1"),
        _writing("updateBrokerConfig", "-b", ADDRESS, "-k", "storePathRootDir", "-v", "/nowhere"),
        _writing("updateOrderConf", "-t", topic, "-m", "put", "-v", f"{BROKER}:4"),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        _writing("updateOrderConf", "-t", topic, "-m", "delete"),
        _writing("updateKvConfig", "-s", "compat", "-k", "colour", "-v", "blue"),
        _writing("deleteKvConfig", "-s", "compat", "-k", "colour"),
        Step(("getNamesrvConfig",)),
        _writing("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true"),
        _writing("updateAclConfig", "-b", ADDRESS, "-a", "RocketMQUser", "-s", "12345678"),
        _writing("updateAclConfig", "-c", CLUSTER, "-a", "RocketMQUser", "-s", "12345678"),
        _writing("deleteAclConfig", "-b", ADDRESS, "-a", "RocketMQUser"),
        _writing("deleteAclConfig", "-c", CLUSTER, "-a", "RocketMQUser"),
        _writing("updateGlobalWhiteAddr", "-b", ADDRESS, "-g", "192.0.2.1"),
        _writing("updateGlobalWhiteAddr", "-c", CLUSTER, "-g", "192.0.2.1"),
        _writing("clusterAclConfigVersion", "-b", ADDRESS),
        _writing("clusterAclConfigVersion", "-c", CLUSTER),
    )


def _deletes(topic: str) -> tuple[Step, ...]:
    return (
        _writing("deleteSubGroup", "-b", ADDRESS, "-g", OTHER_GROUP),
        _writing("deleteSubGroup", "-c", CLUSTER, "-g", WIDE_GROUP, "-r", "true"),
        Step(("getConsumerConfig", "-g", WIDE_GROUP)),
        _writing("deleteTopic", "-c", CLUSTER, "-t", f"{topic}_made"),
        Step(("topicRoute", "-t", f"{topic}_made"), until="CODE: 17 "),
    )


def _writing(*arguments: str) -> Step:
    return Step(arguments, reads=False)
