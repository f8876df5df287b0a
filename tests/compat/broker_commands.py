"""The mqadmin commands of 4.9.8 that end at a broker, as a script that is run on Apache's broker and on ours."""

from __future__ import annotations

import re

from tests.compat.commands import Step

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
ADDRESS = "{address}"
GROUP = "compat_consumer"
OTHER_GROUP = "other_consumer"
# Commands that print one setting or figure on a line; Apache's and ours have not quite the same ones.
KEYED = {"brokerStatus", "getBrokerConfig"}
# Commands that leave something behind in their virtual machine and fail when they are run in it again.
ONCE = {"sendMessage", "consumeMessage"}
_LAID_OUT = "same, but the producer chose another queue to begin with, and 5.x stores MSG_REGION and TRACE_ON too"
# What differs and why, by how the command begins.
EXPLAINED = {
    "clusterList": "mqadmin 4.9.8 fails on Apache's broker of 5.5, which lacks getTransferedTps; ours says it",
    "topicList": "5.5 has two more topics, for transactions in RocksDB",
    "queryMsgByKey": _LAID_OUT,
    "queryMsgByOffset": _LAID_OUT,
    "queryCq": _LAID_OUT,
    "printMsg": _LAID_OUT,
    "printMsgByQueue": _LAID_OUT,
    "consumeMessage": _LAID_OUT,
    "statsAll": "same, but for figures that grow from minute to minute",
    "updateBrokerConfig": "ours refuses what is not on its list of settings that may change while it runs",
    "wipeWritePerm": "same, of another number of topics",
    "addWritePerm": "same, of another number of topics",
}
REFUSED = {"updateBrokerConfig"}

_TIMES = re.compile(r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([:,.]\d{3})?|\b1[678]\d{11}\b")
_IDS = re.compile(r"\b[0-9A-F]{32}\b")
_CLIENTS = re.compile(r"127\.0\.0\.1:\d+|\b\d+\.\d+\.\d+\.\d+@\d+(#\d+)?|\b\d+@[\w.-]+")
# Whether a consumer that ends has told how far it is in its empty retry queue is a matter of its timing.
_UNTOUCHED = re.compile(r"%RETRY%\S+ \S+ 0 0 0 0 N/A")
_COST = re.compile(r"(?<=cost: )\d+|\b\d+ ?ms\b|(?<=rt=)\d+|(?<=OFFLINE )\d+(?= \d+$)|(?<= true )\d+$", re.MULTILINE)


def script(topic: str) -> tuple[Step, ...]:
    """Whoever runs it has sent sixteen messages to the topic and consumed them as GROUP."""
    return (
        Step(("clusterList",)),
        Step(("topicList",)),
        Step(("topicStatus", "-t", topic)),
        Step(("topicRoute", "-t", topic)),
        Step(("topicClusterList", "-t", topic)),
        Step(("updateTopic", "-b", ADDRESS, "-t", f"{topic}_made", "-r", "2", "-w", "2"), reads=False),
        Step(("updateTopicPerm", "-b", ADDRESS, "-t", f"{topic}_made", "-p", "4"), reads=False),
        Step(("topicRoute", "-t", f"{topic}_made")),
        Step(("updateSubGroup", "-b", ADDRESS, "-g", OTHER_GROUP, "-r", "3"), reads=False),
        Step(("getConsumerConfig", "-g", OTHER_GROUP)),
        Step(("consumerProgress", "-g", GROUP)),
        Step(("consumerProgress", "-g", "no_such_group")),
        Step(("consumerProgress",)),
        Step(("consumerConnection", "-g", GROUP)),
        Step(("producerConnection", "-g", "no_such_producer", "-t", topic)),
        Step(("consumerStatus", "-g", GROUP)),
        Step(("brokerStatus", "-b", ADDRESS)),
        Step(("getBrokerConfig", "-b", ADDRESS)),
        Step(("brokerConsumeStats", "-b", ADDRESS)),
        Step(("queryMsgByKey", "-t", topic, "-k", "key3")),
        Step(("queryMsgByKey", "-t", topic, "-k", "no_such_key")),
        Step(("queryMsgByOffset", "-t", topic, "-b", BROKER, "-i", "0", "-o", "0")),
        Step(("queryMsgByOffset", "-t", topic, "-b", BROKER, "-i", "0", "-o", "999")),
        Step(("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "4", "-b", ADDRESS)),
        Step(("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "4", "-b", ADDRESS, "-g", GROUP)),
        Step(("printMsg", "-t", topic)),
        Step(("printMsgByQueue", "-t", topic, "-a", BROKER, "-i", "0", "-p", "true", "-d", "true")),
        Step(("consumeMessage", "-t", topic, "-g", GROUP, "-b", BROKER, "-o", "0", "-i", "0", "-c", "2")),
        Step(("sendMessage", "-t", topic, "-p", "by hand", "-k", "hand", "-c", "TagH", "-b", BROKER, "-i", "1"), False),
        Step(("sendMsgStatus", "-b", BROKER, "-s", "16", "-c", "2"), reads=False),
        Step(("checkMsgSendRT", "-t", topic, "-a", "2", "-s", "16"), reads=False),
        Step(("resetOffsetByTime", "-g", GROUP, "-t", topic, "-s", "0"), reads=False),
        Step(("resetOffsetByTime", "-g", GROUP, "-t", topic, "-s", "now"), reads=False),
        Step(("skipAccumulatedMessage", "-g", GROUP, "-t", topic), reads=False),
        Step(("cloneGroupOffset", "-s", GROUP, "-d", OTHER_GROUP, "-t", topic), reads=False),
        Step(("consumerProgress", "-g", GROUP, "-t", topic)),
        Step(("statsAll", "-t", topic)),
        Step(("updateBrokerConfig", "-b", ADDRESS, "-k", "flushDelayOffsetInterval", "-v", "10000"), reads=False),
        Step(("updateBrokerConfig", "-b", ADDRESS, "-k", "no_such_key", "-v", "1"), reads=False),
        Step(("cleanExpiredCQ", "-b", ADDRESS), reads=False),
        Step(("cleanUnusedTopic", "-b", ADDRESS), reads=False),
        Step(("deleteExpiredCommitLog", "-b", ADDRESS), reads=False),
        Step(("allocateMQ", "-t", topic, "-i", "192.0.2.1,192.0.2.2")),
        Step(("wipeWritePerm", "-b", BROKER), reads=False),
        Step(("addWritePerm", "-b", BROKER), reads=False),
        Step(("updateOrderConf", "-t", topic, "-m", "put", "-v", f"{BROKER}:4"), reads=False),
        Step(("updateOrderConf", "-t", topic, "-m", "get")),
        Step(("updateOrderConf", "-t", topic, "-m", "delete"), reads=False),
        Step(("updateAclConfig", "-b", ADDRESS, "-a", "RocketMQUser", "-s", "12345678"), reads=False),
        Step(("deleteAccessConfig", "-b", ADDRESS, "-a", "RocketMQUser"), reads=False),
        Step(("updateGlobalWhiteAddr", "-b", ADDRESS, "-g", "192.0.2.1"), reads=False),
        Step(("clusterAclConfigVersion", "-b", ADDRESS)),
        Step(("getAccessConfigSubCommand", "-b", ADDRESS)),
        Step(("deleteSubGroup", "-b", ADDRESS, "-g", OTHER_GROUP), reads=False),
        Step(("deleteTopic", "-c", CLUSTER, "-t", f"{topic}_made"), reads=False),
        Step(("topicRoute", "-t", f"{topic}_made")),
    )


def normalised(printed: str, address: str) -> str:
    """`printed` without the broker's address, and what is of the moment: times, ids, clients and how long it took."""
    text = printed.replace(address, "BROKER")
    for pattern, name in ((_TIMES, "TIME"), (_IDS, "ID"), (_CLIENTS, "CLIENT"), (_COST, "#")):
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.splitlines() if not _UNTOUCHED.match(line))
