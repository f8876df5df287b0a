"""Our mqadmin, run as Java's is, and why what it prints is not always the same."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from dataclasses import dataclass

from click.testing import CliRunner

from kerolox.cli.admin.tool import mqadmin
from tests.apache.processes import running, temporary_home
from tests.compat.explained import Difference
from tests.compat.waiting import eventually

ENDLESS_SECONDS = 90.0

_CODE = re.compile(r"CODE: (\d+) ")
_OUR_CODE = re.compile(r"\(\w[\w ]*, (\d+)\)")
_TRACE = re.compile(r"^\s*at [\w.$]+\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Printed:
    """What a tool printed on both streams, and the code it ended with."""

    text: str
    code: int

    @property
    def is_failure(self) -> bool:
        return self.code != 0


def run(*arguments: str, namesrv: str) -> Printed:
    """Runs a command of ours in this process."""
    # Some commands write files to where they are run.
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        result = CliRunner().invoke(mqadmin, [*arguments, "-n", namesrv])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Printed(result.output, result.exit_code)


def run_until(line: str, *arguments: str, namesrv: str) -> str:
    """Returns what a command of ours has printed once there is a line like this; then it is ended."""
    program = [sys.executable, "-u", "-c", "from kerolox.cli.admin.tool import mqadmin; mqadmin()"]
    with temporary_home() as home, running([*program, *arguments, "-n", namesrv], home) as process:
        eventually(lambda: re.search(line, process.output()) is not None, ENDLESS_SECONDS, f"round of {arguments[0]}")
        return process.output()


def is_trace(java: str) -> bool:
    """Whether Java's tool ended with a stack of its own."""
    return _TRACE.search(java) is not None


def ours_works(kind: str, arguments: tuple[str, ...], ours: Printed) -> str | None:
    """Why Java's tool failed where ours did not; None if it should not have."""
    reason = ONLY_OURS.get(kind, {}).get(arguments[0])
    return None if reason is None or ours.is_failure else reason


def both_fail(arguments: tuple[str, ...], java: str, ours: Printed) -> str:
    """What the table says where Java prints a stack; AssertionError if ours did not fail as it should."""
    assert ours.is_failure, ours.text
    otherwise = OTHER_CODES.get(" ".join(arguments))
    if otherwise is not None:
        return f"both fail: {otherwise}"
    last = ours.text.rstrip("\n").splitlines()[-1]
    assert last.startswith("Error: "), ours.text
    assert "Traceback" not in ours.text
    codes = _CODE.findall(java)
    own = _OUR_CODE.findall(last)
    if codes and own:
        assert own[-1] in codes, f"Java: {codes}, ours: {last}"
    return "both fail: Java with a stack, ours with a sentence"


# Where both fail, though not for the same reason.
OTHER_CODES = {
    "updateTopic -b {address} -t no good name": "ours looks at the name before it asks the broker",
    "consumerStatus -g no_such_group": "Java does not find the group's retry topic, ours nobody of the group",
}

# Where only Java's tool fails, by the kind of brokers and the command.
_RENAMED = "the tool of 4.9.8 fails at Apache's 5.5, which renamed getTransferedTps; ours does not"
ONLY_OURS = {
    "5.5.0": {
        "clusterList": _RENAMED,
        "exportMetrics": _RENAMED,
        "exportConfigs": "the tool of 4.9.8 fails at Apache's 5.5, which has no filterServerNums; ours does not",
    }
}

_TRACKS = Difference(
    "of a group that never was online Java says UNKNOWN and shows where it failed; ours says NOT_ONLINE",
    (
        (r"\](?=MessageTrack )", "]\n"),
        (r"(?<=consumerGroup=other_consumer, ).*", "#"),
        (r"^(See https|For more).*", ""),
    ),
    is_sometimes=True,
)

_COUNTED = Difference(
    "where both tools have looked, there is a topic more for their group", ((r"(?<=OK, )\d+$", "#"),), is_sometimes=True
)

# By the beginning of a command: what ours prints differently of the same cluster, and why.
EXPLAINED: dict[str, Difference] = {
    "queryMsgByOffset -t script -b broker-a -i 0 -o 999": Difference(
        "Java prints nothing of a place where there is no message; ours says so", ours=(r"Error: there is no .*",)
    ),
    "exportMetrics": Difference(
        "each tool says its own release, and rates are of the moment",
        ((r'"rocketmqVersion":"\w+"', '"rocketmqVersion":"#"'), (r'("\w*Tps"):[\d.#E-]+', r"\1:#")),
        is_sometimes=True,
    ),
    "consumerProgress -g compat_consumer -t": Difference(
        "4.9.8 has no such flag, and prints its help; ours has that of 5.x", apache=(".*",), ours=(".*",)
    ),
    "sendMsgStatus": Difference(
        "where both tools have timed a broker, its queue has more messages",
        ((r"(?<=queueOffset=)\d+", "#"),),
        is_sometimes=True,
    ),
    "startMonitoring": Difference(
        "Java's also tells of offsets that were moved before it began, if its group has not heard of them",
        apache=(r"\[MONITOR\] reportDeleteMsgsEvent: .*",),
        is_sometimes=True,
    ),
    "wipeWritePerm": _COUNTED,
    "addWritePerm": _COUNTED,
    "queryMsgById -i {place}": _TRACKS,
    "queryMsgByUniqueKey -i {unique} -t script": _TRACKS,
    "queryMsgByOffset": _TRACKS,
}


def explanation(arguments: tuple[str, ...]) -> Difference | None:
    words = list(arguments)
    while words:
        found = EXPLAINED.get(" ".join(words))
        if found is not None:
            return found
        words.pop()
    return None
