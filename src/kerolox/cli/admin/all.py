"""All commands, in the order in which Java lists them."""

from kerolox.cli.admin import (  # noqa: F401  To import them is to declare their commands.
    acl,
    brokers,
    clusters,
    connections,
    entries,
    export,
    groups,
    messages,
    metrics,
    monitoring,
    namesrv,
    offsets,
    policies,
    reading,
    routes,
    sending,
    statistics,
    topics,
    users,
)
from kerolox.cli.admin.declaring import COMMANDS, Command

_ORDER = (
    *("updateTopic", "deleteTopic", "updateSubGroup", "deleteSubGroup", "updateBrokerConfig", "updateTopicPerm"),
    *("topicRoute", "topicStatus", "topicClusterList", "brokerStatus", "queryMsgById", "queryMsgByKey"),
    *("queryMsgByUniqueKey", "queryMsgByOffset", "queryMsgTraceById", "printMsg", "printMsgByQueue"),
    *("sendMsgStatus", "brokerConsumeStats", "producerConnection", "consumerConnection", "consumerProgress"),
    *("consumerStatus", "cloneGroupOffset", "producer", "clusterList", "topicList", "updateKvConfig"),
    *("deleteKvConfig", "wipeWritePerm", "addWritePerm", "resetOffsetByTime", "skipAccumulatedMessage"),
    *("updateOrderConf", "cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic", "startMonitoring"),
    *("statsAll", "allocateMQ", "checkMsgSendRT", "clusterRT", "getNamesrvConfig", "updateNamesrvConfig"),
    *("getBrokerConfig", "getConsumerConfig", "queryCq", "sendMessage", "consumeMessage", "updateAclConfig"),
    *("deleteAclConfig", "clusterAclConfigVersion", "updateGlobalWhiteAddr", "exportMetadata", "exportConfigs"),
    "exportMetrics",
)

# Those that came with 5.x follow.
LISTED: list[Command] = [COMMANDS[name] for name in _ORDER]
LISTED += [command for name, command in COMMANDS.items() if name not in _ORDER]

BY_NAME: dict[str, Command] = {command.name.lower(): command for command in LISTED}
BY_NAME |= {command.alias.lower(): command for command in LISTED if command.alias}
