"""Accepted differences in mqadmin output between Apache's brokers and ours, by command, with reasons."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

# Brokers are named by the version of their tools: the broker for 4.9.8 is that of 4.9.7.
FOUR, FIVE = "4.9.8", "5.5.0"


@dataclass(frozen=True, slots=True)
class Difference:
    """One reason, and all lines it may change; any other difference is a failure.

    `undone` are patterns, each with what stands for it on both sides; `apache` and `ours` are patterns of whole lines
    that only one of them prints.
    """

    reason: str
    undone: tuple[tuple[str, str], ...] = ()
    apache: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    # Whether the difference shows depends on timing.
    is_sometimes: bool = False

    def left(self, apache: str, ours: str) -> list[str]:
        """Returns the lines that occur in only one output and are not explained."""
        theirs, own = Counter(self._undo(apache).splitlines()), Counter(self._undo(ours).splitlines())
        only_theirs, only_own = _unexplained(theirs - own, self.apache), _unexplained(own - theirs, self.ours)
        return [f"apache: {line}" for line in only_theirs] + [f"ours:   {line}" for line in only_own]

    def _undo(self, text: str) -> str:
        for pattern, name in self.undone:
            text = re.sub(pattern, name, text, flags=re.MULTILINE)
        return text


NONE = Difference("")


def _unexplained(lines: Counter[str], patterns: tuple[str, ...]) -> list[str]:
    return [line for line in lines.elements() if not any(re.fullmatch(pattern, line) for pattern in patterns)]


# Exceptions as the tools print them.
_TRACE = (r"(Caused by: )?[\w.]+(Exception|Error)\b.*", r"\tat .*", r"\t\.\.\. \d+ more", r"For more information.*")

_SIZES = (r"\b(storeSize|commitLogOffset|physicOffset|physicSize)=\d+", r"\1=#")
_RATES = (r"^((BROKER )?\w+Tps ?: ?)[#. ]+$", r"\1#")


def _refused(code: int, words: str) -> tuple[str, ...]:
    return (rf".*\bCODE: {code} DESC: {words}.*", r"[\w.]+Exception.*command failed", *_TRACE[1:])


_TOPICS_OF_FIVE = (
    r"(rmq_sys_REVIVE_LOG_\w+|rmq_sys_wheel_timer|rmq_sys_SYNC_BROKER_MEMBER_\S+|RMQ_SYS_TRANS_\w*HALF_TOPIC)"
)
_ROCKSDB = r"RMQ_SYS_ROCKSDB_TRANS_(OP_)?HALF_TOPIC"
_NO_TRANSFERED = "the tool of 4.9.8 fails at Apache's 5.5, which renamed getTransferedTps; ours has both names"
_WAIT = Difference(
    "4.9 does not store WAIT=true, which every producer sends; 5.5 and ours do", (("WAIT=true, ", ""), _SIZES)
)
_WAIT_SIZE = Difference("4.9 does not store WAIT=true, so that its messages are shorter", (_SIZES,))
_REGION = Difference(
    "5.5 stores MSG_REGION and TRACE_ON with every message; 4.9 and ours do not",
    ((r"(MSG_REGION=DefaultRegion|TRACE_ON=true), ", ""), _SIZES),
)
_REGION_SIZE = Difference("5.5 stores MSG_REGION and TRACE_ON too, so that its messages are longer", (_SIZES,))
_NO_LISTS = "access lists of 4.x are not there, as in 5.5; 4.9.7 without aclEnable fails inside"
_PATH = "over the wire ours changes what is marked as changeable, and no paths"

# Prefix of a command → difference; NONE for one that must not differ although a shorter prefix does.
EXPLAINED: dict[str, dict[str, Difference]] = {
    FOUR: {
        "statsAll": Difference("ours has the topics of 5.x too", ours=(rf"{_TOPICS_OF_FIVE} 0 #\.# 0 NO_CONSUMER",)),
        "statsAll -t": NONE,
        "statsAll -a": NONE,
        "clusterList": Difference("ours answers as 5.5 does", ((r"\bV4_9_7\b|\bV5_5_0\b", "VERSION"),)),
        "clusterList -m": Difference(
            "4.9 counts messages to its own topics, 5.5 and ours do not", ((r"(?<= 0 0 )\d+(?= \d+$)", "#"),)
        ),
        "topicList": Difference("ours has the topics of 5.x too", ours=(_TOPICS_OF_FIVE,)),
        "topicList -c": Difference("ours has the topics of 5.x too", ours=(rf"DefaultCluster {_TOPICS_OF_FIVE}",)),
        "brokerStatus": Difference(
            "ours tells what 5.5 tells; 4.9 knows no time of the first message before 8 MB are there",
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
            "ours answers as 5.5 does: 29, and with the name",
            apache=(r".*CODE: 1 DESC: The specified topic contains illegal characters, allowing only .*",),
            ours=(r".*CODE: 29 DESC: The specified topic: no good name, contains illegal characters, allowing .*",),
        ),
        "queryMsgById -i {place}": _WAIT,
        "queryMsgById -i {place} -g": NONE,
        "queryMsgByUniqueKey -i {unique} -t script": _WAIT,
        "queryMsgByUniqueKey -i {unique} -t script -g": NONE,
        "queryMsgByOffset": _WAIT,
        "queryMsgByOffset -t script -b broker-a -i 0 -o 999": NONE,
        "queryCq": _WAIT_SIZE,
        "queryCq -t script -q 9": NONE,
        "printMsg": _WAIT,
        "printMsg -t script -s TagB": NONE,
        "printMsgByQueue": _WAIT,
        "printMsgByQueue -t script -a broker-a -i 0 -f": NONE,
        "consumeMessage": _WAIT,
        "wipeWritePerm": Difference("ours has the topics of 5.x too", ((r"(?<=OK, )\d+$", "#"),)),
        "addWritePerm": Difference("ours has the topics of 5.x too", ((r"(?<=OK, )\d+$", "#"),)),
        "updateBrokerConfig -b {address} -k storePathRootDir": Difference(
            _PATH, apache=("update broker config success, BROKER",), ours=_refused(16, "storePathRootDir")
        ),
        "startMonitoring": Difference(
            "4.9 stores an event for a pull from an offset that is not there; 5.5 and ours only tell who pulls",
            apache=(r"\[MONITOR\] reportDeleteMsgsEvent: .*topic=script, .* offsetRequest=999, offsetNew=4.*",),
        ),
        "updateAclConfig": Difference(_NO_LISTS, apache=_refused(209, ""), ours=_refused(3, "request type 50")),
        "deleteAclConfig": Difference(_NO_LISTS, apache=_refused(210, ""), ours=_refused(3, "request type 51")),
        "updateGlobalWhiteAddr": Difference(_NO_LISTS, apache=_refused(211, ""), ours=_refused(3, "request type 53")),
        "clusterAclConfigVersion": Difference(
            f"{_NO_LISTS}, and does not answer",
            apache=(r"Caused by: .*RemotingTimeoutException.*", *_TRACE[1:]),
            ours=_refused(3, "request type 52"),
        ),
    },
    FIVE: {
        "statsAll": Difference(
            "5.5 has two topics more, for transactions in RocksDB", apache=(rf"{_ROCKSDB} 0 #\.# 0 NO_CONSUMER",)
        ),
        "statsAll -t": NONE,
        "statsAll -a": NONE,
        "clusterList": Difference(_NO_TRANSFERED, apache=_TRACE),
        "clusterList -m": NONE,
        "topicList": Difference("5.5 has two topics more, for transactions in RocksDB", apache=(_ROCKSDB,)),
        "topicList -c": Difference(
            "5.5 has two topics more, for transactions in RocksDB", apache=(f"DefaultCluster {_ROCKSDB}",)
        ),
        "brokerStatus": Difference(
            "ours has the number of its version too, and getTransferedTps, for the tools of 4.9",
            (_RATES,),
            ours=(r"(BROKER )?(brokerVersion ?: ?\d+|getTransferedTps ?: ?#)",),
        ),
        "queryMsgById -i {place}": _REGION,
        "queryMsgById -i {place} -g": NONE,
        "queryMsgByUniqueKey -i {unique} -t script": _REGION,
        "queryMsgByUniqueKey -i {unique} -t script -g": NONE,
        "queryMsgByOffset": _REGION,
        "queryMsgByOffset -t script -b broker-a -i 0 -o 999": NONE,
        "queryCq": _REGION_SIZE,
        "queryCq -t script -q 9": NONE,
        "printMsg": _REGION,
        "printMsg -t script -s TagB": NONE,
        "printMsgByQueue": _REGION,
        "printMsgByQueue -t script -a broker-a -i 0 -f": NONE,
        "consumeMessage": _REGION,
        "exportMetadata -b {address} -t": Difference(
            "5.5 makes a topic of its own without another version of the table",
            ((r'(?<="counter":)\d+', "#"),),
            is_sometimes=True,
        ),
        "exportConfigs": Difference(
            "the tool of 4.9.8 fails at Apache's 5.5, which has no filterServerNums", apache=_TRACE, ours=(".*",)
        ),
        "exportMetrics": Difference(_NO_TRANSFERED, apache=_TRACE, ours=(".*",)),
        "getConsumerConfig -g wide_consumer": Difference(
            "5.5 makes a deleted group anew as soon as some part of it asks for it",
            apache=("=+.*=+", r"\w+ = .*"),
            is_sometimes=True,
        ),
        "wipeWritePerm": Difference("5.5 has two topics more", ((r"(?<=OK, )\d+$", "#"),)),
        "addWritePerm": Difference("5.5 has two topics more", ((r"(?<=OK, )\d+$", "#"),)),
        "updateBrokerConfig -b {address} -k storePathRootDir": Difference(
            _PATH, apache=("update broker config success, BROKER",), ours=_refused(16, "storePathRootDir")
        ),
    },
}

_SETTING = re.compile(r"^(\S+) = ?(.*)$", re.MULTILINE)
# Settings with different values, and why.
_OTHER_VALUES = {
    FIVE: {
        "listenPort": "each has its own",
        "storePathCommitLog": "ours is told nothing else than storePathRootDir",
        "bitMapLengthConsumeQueueExt": "Java sets it also where filters by bit map are off",
        "flushCommitLogLeastPages": "ours is 0: it never waits for pages",
    },
    FOUR: {},
}
_OTHER_VALUES[FOUR] = _OTHER_VALUES[FIVE] | {
    "transactionCheckInterval": "as in 5.5",
    "registerBrokerTimeoutMills": "as in 5.5",
}


def explanation(version: str, arguments: tuple[str, ...]) -> Difference | None:
    """Returns the accepted difference of a command by its longest prefix in the table, or None."""
    words = list(arguments)
    while words:
        found = EXPLAINED[version].get(" ".join(words))
        if found is not None:
            return found if found is not NONE else None
        words.pop()
    return None


def settings(version: str, apache: str, ours: str) -> str:
    """Compares settings: ours lacks those for Java's threads and buffers, and has some of its own."""
    theirs, own = dict(_SETTING.findall(apache)), dict(_SETTING.findall(ours))
    different = {key: (theirs[key], own[key]) for key in theirs.keys() & own.keys() if theirs[key] != own[key]}
    assert different.keys() == _OTHER_VALUES[version].keys(), different
    return f"{len(theirs.keys() & own.keys())} of {len(theirs)} settings"
