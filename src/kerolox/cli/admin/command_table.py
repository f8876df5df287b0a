"""All commands, in the order in which Java lists them (MQAdminStartup)."""

# Importing these modules registers their commands.
import kerolox.cli.admin.auth.acl
import kerolox.cli.admin.auth.policies
import kerolox.cli.admin.auth.users
import kerolox.cli.admin.cluster.brokers
import kerolox.cli.admin.cluster.clusters
import kerolox.cli.admin.cluster.controllers
import kerolox.cli.admin.cluster.export
import kerolox.cli.admin.cluster.export_metrics
import kerolox.cli.admin.cluster.namesrv
import kerolox.cli.admin.cluster.statistics
import kerolox.cli.admin.consumers.connections
import kerolox.cli.admin.consumers.groups
import kerolox.cli.admin.consumers.monitoring
import kerolox.cli.admin.consumers.offsets
import kerolox.cli.admin.messages.consume
import kerolox.cli.admin.messages.query
import kerolox.cli.admin.messages.send
import kerolox.cli.admin.topics.consume_queue
import kerolox.cli.admin.topics.routes
import kerolox.cli.admin.topics.topics  # noqa: F401
from kerolox.cli.admin.command import COMMANDS, Command

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
    # New in 5.x.
    *("resetMasterFlushOffset", "updateTopicList", "haStatus", "updateSubGroupList", "setConsumeMode"),
    *("getSyncStateSet", "getBrokerEpoch", "getControllerMetaData", "getControllerConfig", "updateControllerConfig"),
    *("electMaster", "cleanBrokerMetadata"),
    *("createAcl", "updateAcl", "deleteAcl", "getAcl", "listAcl", "copyAcl"),
    *("createUser", "updateUser", "deleteUser", "getUser", "listUser", "copyUser"),
)

ALL_COMMANDS: list[Command] = [COMMANDS[name] for name in _ORDER]
assert len(ALL_COMMANDS) == len(COMMANDS), "a command is missing in _ORDER"

BY_NAME: dict[str, Command] = {command.name.lower(): command for command in ALL_COMMANDS}
BY_NAME |= {command.alias.lower(): command for command in ALL_COMMANDS if command.alias}
