"""Normalises the output of mqadmin: replaces times, ids, clients, rates and durations."""

from __future__ import annotations

import re

_MEASURED = (
    r"getMessageEntireTimeMax|putMessage\w+|putLatency\d+|commitLogMaxOffset|commitLogDirCapacity|msgPutTotalTodayNow"
    r"|dispatchBehindBytes|remain\w+|\w+HeadWaitTimeMills"
)
# Applied in this order.
_VARIABLE = (
    # Only the presence of a thread dump is compared.
    (r"(#Consumer jstack#)[\s\S]*", r"\1"),
    (r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d([:,.]\d{3})?|\b1[678]\d{11}\b|\b20\d{12}(\d{3})?\b", "TIME"),
    (r"\b[0-9A-F]{32}\b", "ID"),
    (r"(\$\$Lambda\$\d+/0x[0-9a-f]+)?@[0-9a-f]{5,8}\b", "@OBJECT"),
    (r"127\.0\.0\.1:\d+|\b\d+\.\d+\.\d+\.\d+@\d+(#\d+)?|\b\d+@[\w.-]+", "CLIENT"),
    (r"(?<=cost: )\d+|\b\d+ ?ms\b|(?<=rt=)\d+|(?<= true )\d+$|(?<=spentTimeMills=)\d+", "#"),
    (r"(?<=OFFLINE )\d+(?= \d+$)|(?<=[dD]elayTimeMills=)\d+", "#"),
    (r"^((BROKER )?runtime : )\[.*\]", r"\1#"),
    # The number of packets of trace data depends on timing.
    (r"(?<=^RMQ_SYS_TRACE_TOPIC ).*", "#"),
    # Ours writes bodies to another folder than Java.
    (r"^(Message Body Path: +)\S*/", r"\1DIRECTORY/"),
    # Measurements of a broker, and the max offset of its log.
    (rf"^((BROKER )?({_MEASURED}) ?: ?).*", r"\1#"),
)
_PATTERNS = [(re.compile(pattern, re.MULTILINE), name) for pattern, name in _VARIABLE]
# Lines that depend on timing: whether a consumer has committed the offset of its empty retry queue, and whether the
# group of a command that consumes is registered.
_TIMING = re.compile(
    r"%RETRY%\S+ \S+ 0 0 0 ([\d.]+ )?0 N/A"
    r"|(\S+ )?(%RETRY%)?TOOLS_CONSUMER\b"
    r"|\[MONITOR\] reportUndoneMsgs: .*(=__MONITOR_CONSUMER,|topic=%RETRY%)"
)


def normalised(printed: str) -> str:
    for pattern, name in _PATTERNS:
        printed = pattern.sub(name, printed)
    return "\n".join(line.rstrip() for line in printed.splitlines() if not _TIMING.match(line))
