"""What a command of mqadmin printed, without what is of the moment: times, ids, clients, rates and how long it took."""

from __future__ import annotations

import re

_MEASURED = (
    r"getMessageEntireTimeMax|putMessage\w+|putLatency\d+|commitLogMaxOffset|commitLogDirCapacity|msgPutTotalTodayNow"
    r"|dispatchBehindBytes|remain\w+|\w+HeadWaitTimeMills"
)
# In this order; a later one sees what an earlier one has left.
_MOMENTARY = (
    # Of a stack of threads only that there was one.
    (r"(#Consumer jstack#)[\s\S]*", r"\1"),
    (r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([:,.]\d{3})?|\b1[678]\d{11}\b|\b20\d{12}(\d{3})?\b", "TIME"),
    (r"\b[0-9A-F]{32}\b", "ID"),
    (r"(\$\$Lambda\$\d+/0x[0-9a-f]+)?@[0-9a-f]{5,8}\b", "@OBJECT"),
    (r"127\.0\.0\.1:\d+|\b\d+\.\d+\.\d+\.\d+@\d+(#\d+)?|\b\d+@[\w.-]+", "CLIENT"),
    (r"(?<=cost: )\d+|\b\d+ ?ms\b|(?<=rt=)\d+|(?<= true )\d+$|(?<=spentTimeMills=)\d+", "#"),
    (r"(?<=OFFLINE )\d+(?= \d+$)|(?<=[dD]elayTimeMills=)\d+", "#"),
    (r"^((BROKER )?runtime : )\[.*\]", r"\1#"),
    # How many packets the traces of a producer and a consumer are sent in is a matter of their timing.
    (r"(?<=^RMQ_SYS_TRACE_TOPIC ).*", "#"),
    # What a broker has measured, and where its log ends.
    (rf"^((BROKER )?({_MEASURED}) ?: ?).*", r"\1#"),
)
_PATTERNS = [(re.compile(pattern, re.MULTILINE), name) for pattern, name in _MOMENTARY]
# Whether a consumer has told yet how far it is in its empty retry queue, and whether a command that consumes has told
# the broker of its group, is a matter of timing.
_TIMING = re.compile(
    r"%RETRY%\S+ \S+ 0 0 0 ([\d.]+ )?0 N/A"
    r"|(\S+ )?(%RETRY%)?TOOLS_CONSUMER\b"
    r"|\[MONITOR\] reportUndoneMsgs: .*(=__MONITOR_CONSUMER,|topic=%RETRY%)"
)


def normalised(printed: str) -> str:
    for pattern, name in _PATTERNS:
        printed = pattern.sub(name, printed)
    return "\n".join(line.rstrip() for line in printed.splitlines() if not _TIMING.match(line))
