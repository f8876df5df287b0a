"""Accepted differences in mqadmin output between Apache's brokers and ours, by command, with reasons."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

# Brokers are named by the version of their tools: the broker for 4.9.8 is that of 4.9.7.
V4, V5 = "4.9.8", "5.5.0"


@dataclass(frozen=True, slots=True)
class Difference:
    """An accepted difference and its reason; any other difference is a failure.

    `substitutions` are patterns and their replacements in both outputs; `apache` and `ours` match whole lines that
    occur in only one output.
    """

    reason: str
    substitutions: tuple[tuple[str, str], ...] = ()
    apache: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    # The difference may be absent.
    depends_on_timing: bool = False

    def unexplained_lines(self, apache: str, ours: str) -> list[str]:
        """Return the lines that occur in only one output and are not explained."""
        theirs, own = Counter(self._substituted(apache).splitlines()), Counter(self._substituted(ours).splitlines())
        only_theirs, only_own = _unexplained(theirs - own, self.apache), _unexplained(own - theirs, self.ours)
        return [f"apache: {line}" for line in only_theirs] + [f"ours:   {line}" for line in only_own]

    def _substituted(self, text: str) -> str:
        for pattern, name in self.substitutions:
            text = re.sub(pattern, name, text, flags=re.MULTILINE)
        return text


NO_DIFFERENCE = Difference("")


def _unexplained(lines: Counter[str], patterns: tuple[str, ...]) -> list[str]:
    return [line for line in lines.elements() if not any(re.fullmatch(pattern, line) for pattern in patterns)]


# Exceptions as the tools print them.
_TRACE = (r"(Caused by: )?[\w.]+(Exception|Error)\b.*", r"\tat .*", r"\t\.\.\. \d+ more", r"For more information.*")

_SIZES = (r"\b(storeSize|commitLogOffset|physicOffset|physicSize)=\d+", r"\1=#")
_RATES = (r"^((BROKER )?\w+Tps ?: ?)[#. ]+$", r"\1#")


def _refused(code: int, words: str) -> tuple[str, ...]:
    return (rf".*\bCODE: {code} DESC: {words}.*", r"[\w.]+Exception.*command failed", *_TRACE[1:])


_TOPICS_5X = r"(rmq_sys_REVIVE_LOG_\w+|rmq_sys_wheel_timer|rmq_sys_SYNC_BROKER_MEMBER_\S+|RMQ_SYS_TRANS_\w*HALF_TOPIC)"
_ROCKSDB = r"RMQ_SYS_ROCKSDB_TRANS_(OP_)?HALF_TOPIC"
_RENAMED_TPS = "the tool of 4.9.8 fails with Apache's 5.5, which renamed getTransferedTps; ours has both names"
_WAIT = Difference(
    "4.9 does not store WAIT=true, which every producer sends; 5.5 and ours do", (("WAIT=true, ", ""), _SIZES)
)
_WAIT_SIZE = Difference("4.9 does not store WAIT=true, so its messages are shorter", (_SIZES,))
_REGION = Difference(
    "5.5 stores MSG_REGION and TRACE_ON with every message; 4.9 and ours do not",
    ((r"(MSG_REGION=DefaultRegion|TRACE_ON=true), ", ""), _SIZES),
)
_REGION_SIZE = Difference("5.5 stores MSG_REGION and TRACE_ON too, so its messages are longer", (_SIZES,))
_NO_ACL_4X = "ACL commands of 4.x are not supported, as in 5.5; 4.9.7 without aclEnable fails internally"
_NO_PATHS = "over the wire, ours changes only settings marked as changeable, and no paths"

# Prefix of a command → difference; NO_DIFFERENCE if the command must not differ although a shorter prefix does.
DIFFERENCES: dict[str, dict[str, Difference]] = {
    V4: {
        "statsAll": Difference("ours has the topics of 5.x too", ours=(rf"{_TOPICS_5X} 0 #\.# 0 NO_CONSUMER",)),
        "statsAll -t": NO_DIFFERENCE,
        "statsAll -a": NO_DIFFERENCE,
        "clusterList": Difference("ours responds as 5.5 does", ((r"\bV4_9_7\b|\bV5_5_0\b", "VERSION"),)),
        "clusterList -m": Difference(
            "4.9 counts messages to its own topics, 5.5 and ours do not", ((r"(?<= 0 0 )\d+(?= \d+$)", "#"),)
        ),
        "topicList": Difference("ours has the topics of 5.x too", ours=(_TOPICS_5X,)),
        "topicList -c": Difference("ours has the topics of 5.x too", ours=(rf"DefaultCluster {_TOPICS_5X}",)),
        "brokerStatus": Difference(
            "ours prints the values of 5.5; 4.9 has no time of the first message until 8 MB are stored",
            (
                _RATES,
                (r"brokerVersion(Desc)? ?: ?\w+", r"brokerVersion\1: #"),
                (r"earliestMessageTimeStamp ?: ?(-1|TIME)", "earliestMessageTimeStamp: #"),
            ),
            ours=(
                r"(BROKER )?(ack|litePull)ThreadPoolQueue\w+ ?: ?\S+",
                r"(BROKER )?timer\w+ ?: ?\S+",
                r"(BROKER )?(brokerActive ?: ?true|getTransferredTps ?: ?#)",
            ),
        ),
        "updateTopic -b {address} -t no good name": Difference(
            "ours responds as 5.5 does: code 29, with the name in the remark",
            apache=(r".*CODE: 1 DESC: The specified topic contains illegal characters, allowing only .*",),
            ours=(r".*CODE: 29 DESC: The specified topic: no good name, contains illegal characters, allowing .*",),
        ),
        "queryMsgById -i {offset_id}": _WAIT,
        "queryMsgById -i {offset_id} -g": NO_DIFFERENCE,
        "queryMsgByUniqueKey -i {unique} -t script": _WAIT,
        "queryMsgByUniqueKey -i {unique} -t script -g": NO_DIFFERENCE,
        "queryMsgByOffset": _WAIT,
        "queryMsgByOffset -t script -b broker-a -i 0 -o 999": NO_DIFFERENCE,
        "queryCq": _WAIT_SIZE,
        "queryCq -t script -q 9": NO_DIFFERENCE,
        "printMsg": _WAIT,
        "printMsg -t script -s TagB": NO_DIFFERENCE,
        "printMsgByQueue": _WAIT,
        "printMsgByQueue -t script -a broker-a -i 0 -f": NO_DIFFERENCE,
        "consumeMessage": _WAIT,
        "wipeWritePerm": Difference("ours has the topics of 5.x too", ((r"(?<=OK, )\d+$", "#"),)),
        "addWritePerm": Difference("ours has the topics of 5.x too", ((r"(?<=OK, )\d+$", "#"),)),
        "updateBrokerConfig -b {address} -k storePathRootDir": Difference(
            _NO_PATHS, apache=("update broker config success, BROKER",), ours=_refused(16, "storePathRootDir")
        ),
        "startMonitoring": Difference(
            "4.9 stores an event for a pull from a missing offset; 5.5 and ours only respond to the consumer",
            apache=(r"\[MONITOR\] reportDeleteMsgsEvent: .*topic=script, .* offsetRequest=999, offsetNew=4.*",),
        ),
        "updateAclConfig": Difference(_NO_ACL_4X, apache=_refused(209, ""), ours=_refused(3, "request type 50")),
        "deleteAclConfig": Difference(_NO_ACL_4X, apache=_refused(210, ""), ours=_refused(3, "request type 51")),
        "updateGlobalWhiteAddr": Difference(_NO_ACL_4X, apache=_refused(211, ""), ours=_refused(3, "request type 53")),
        "clusterAclConfigVersion": Difference(
            f"{_NO_ACL_4X}, and does not respond",
            apache=(r"Caused by: .*RemotingTimeoutException.*", *_TRACE[1:]),
            ours=_refused(3, "request type 52"),
        ),
    },
    V5: {
        "statsAll": Difference(
            "5.5 has two more topics, for transactions in RocksDB", apache=(rf"{_ROCKSDB} 0 #\.# 0 NO_CONSUMER",)
        ),
        "statsAll -t": NO_DIFFERENCE,
        "statsAll -a": NO_DIFFERENCE,
        "clusterList": Difference(_RENAMED_TPS, apache=_TRACE),
        "clusterList -m": NO_DIFFERENCE,
        "topicList": Difference("5.5 has two more topics, for transactions in RocksDB", apache=(_ROCKSDB,)),
        "topicList -c": Difference(
            "5.5 has two more topics, for transactions in RocksDB", apache=(f"DefaultCluster {_ROCKSDB}",)
        ),
        "brokerStatus": Difference(
            "ours also has the version number and getTransferedTps, for the tools of 4.9",
            (_RATES,),
            ours=(r"(BROKER )?(brokerVersion ?: ?\d+|getTransferedTps ?: ?#)",),
        ),
        "queryMsgById -i {offset_id}": _REGION,
        "queryMsgById -i {offset_id} -g": NO_DIFFERENCE,
        "queryMsgByUniqueKey -i {unique} -t script": _REGION,
        "queryMsgByUniqueKey -i {unique} -t script -g": NO_DIFFERENCE,
        "queryMsgByOffset": _REGION,
        "queryMsgByOffset -t script -b broker-a -i 0 -o 999": NO_DIFFERENCE,
        "queryCq": _REGION_SIZE,
        "queryCq -t script -q 9": NO_DIFFERENCE,
        "printMsg": _REGION,
        "printMsg -t script -s TagB": NO_DIFFERENCE,
        "printMsgByQueue": _REGION,
        "printMsgByQueue -t script -a broker-a -i 0 -f": NO_DIFFERENCE,
        "consumeMessage": _REGION,
        "exportMetadata -b {address} -t": Difference(
            "5.5 creates one of its own topics without a new DataVersion",
            ((r'(?<="counter":)\d+', "#"),),
            depends_on_timing=True,
        ),
        "exportConfigs": Difference(
            "the tool of 4.9.8 fails with Apache's 5.5, which has no filterServerNums", apache=_TRACE, ours=(".*",)
        ),
        "exportMetrics": Difference(_RENAMED_TPS, apache=_TRACE, ours=(".*",)),
        "getConsumerConfig -g wide_consumer": Difference(
            "5.5 creates a deleted group again as soon as one of its components looks it up",
            apache=("=+.*=+", r"\w+ = .*"),
            depends_on_timing=True,
        ),
        "wipeWritePerm": Difference("5.5 has two more topics", ((r"(?<=OK, )\d+$", "#"),)),
        "addWritePerm": Difference("5.5 has two more topics", ((r"(?<=OK, )\d+$", "#"),)),
        "updateBrokerConfig -b {address} -k storePathRootDir": Difference(
            _NO_PATHS, apache=("update broker config success, BROKER",), ours=_refused(16, "storePathRootDir")
        ),
    },
}

_SETTING = re.compile(r"^(\S+) = ?(.*)$", re.MULTILINE)
# Settings with different values, and why.
OTHER_VALUES = {
    V5: {
        "listenPort": "each broker has its own",
        "storePathCommitLog": "only storePathRootDir is set for ours",
        "bitMapLengthConsumeQueueExt": "Java sets it even if filtering by bit map is off",
        "flushCommitLogLeastPages": "the default of ours is 0: it does not wait for pages",
        "appendTopicForTimerDeleteKey": "a handle of one topic must not recall a message of another",
        "inSyncReplicas": "a SYNC_MASTER of ours waits for one slave; with Java's default it waits for none",
        "haListenPort": "each broker has its own",
    },
    V4: {},
}
_ONLY_5X = ("appendTopicForTimerDeleteKey", "inSyncReplicas")
OTHER_VALUES[V4] = {key: reason for key, reason in OTHER_VALUES[V5].items() if key not in _ONLY_5X} | {
    "transactionCheckInterval": "as in 5.5",
    "registerBrokerTimeoutMills": "as in 5.5",
}


def explanation(version: str, arguments: tuple[str, ...]) -> Difference | None:
    """Return the accepted difference of a command by its longest prefix in the table, or None."""
    words = list(arguments)
    while words:
        found = DIFFERENCES[version].get(" ".join(words))
        if found is not None:
            return found if found is not NO_DIFFERENCE else None
        words.pop()
    return None


def compare_settings(version: str, apache: str, ours: str) -> str:
    """Compare settings known to both: ours has no settings for Java's threads and buffers, and some of its own."""
    theirs, own = dict(_SETTING.findall(apache)), dict(_SETTING.findall(ours))
    different = {key: (theirs[key], own[key]) for key in theirs.keys() & own.keys() if theirs[key] != own[key]}
    assert different.keys() == OTHER_VALUES[version].keys(), different
    return f"{len(theirs.keys() & own.keys())} of {len(theirs)} settings"
