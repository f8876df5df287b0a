"""Runs our mqadmin like Java's, with the reasons for differences in its output."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from click.testing import CliRunner

from kerolox.cli.admin.tool import mqadmin
from tests.apache.processes import running, temporary_home
from tests.compat.access_commands import ACCOUNT_KINDS, ACCOUNT_VERBS
from tests.compat.explained import Difference
from tests.compat.waiting import eventually

ENDLESS_SECONDS = 90.0

_CODE = re.compile(r"CODE: (\d+) ")
_OUR_CODE = re.compile(r"\(\w[\w ]*, (\d+)\)")
_TRACE = re.compile(r"^\s*at [\w.$]+\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Printed:
    """Output on both streams, and the exit code."""

    text: str
    code: int

    @property
    def is_failure(self) -> bool:
        return self.code != 0


def run(*arguments: str, namesrv: str, environment: Mapping[str, str] | None = None) -> Printed:
    """Runs a command of ours in this process."""
    # Some commands write files to the working directory.
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        result = CliRunner().invoke(mqadmin, [*arguments, "-n", namesrv], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Printed(result.output, result.exit_code)


def run_until(line: str, *arguments: str, namesrv: str) -> str:
    """Runs a command of ours until it prints a matching line; stops it and returns the output."""
    program = [sys.executable, "-u", "-c", "from kerolox.cli.admin.tool import mqadmin; mqadmin()"]
    with temporary_home() as home, running([*program, *arguments, "-n", namesrv], home) as process:
        eventually(lambda: re.search(line, process.output()) is not None, ENDLESS_SECONDS, f"round of {arguments[0]}")
        return process.output()


def is_trace(java: str) -> bool:
    """Whether Java's tool ended with a stack trace."""
    return _TRACE.search(java) is not None


def both_fail(arguments: tuple[str, ...], java: str, ours: Printed, other_codes: Mapping[str, str]) -> str:
    """Returns the entry of the table if both tools fail; raises AssertionError if ours did not fail like Java's."""
    assert ours.is_failure, ours.text
    otherwise = other_codes.get(" ".join(arguments))
    if otherwise is not None:
        return f"both fail: {otherwise}"
    # A command with wrong arguments prints its options after the error.
    told = [line for line in ours.text.splitlines() if line.startswith("Error: ")]
    assert len(told) == 1, ours.text
    assert "Traceback" not in ours.text
    codes = _CODE.findall(java)
    own = _OUR_CODE.findall(told[0])
    if codes and own:
        assert own[-1] in codes, f"Java: {codes}, ours: {told[0]}"
    return "both fail: Java with a stack, ours with a sentence"


# Commands that fail in both tools for different reasons.
OTHER_CODES = {
    "updateTopic -b {address} -t no good name": "ours looks at the name before it asks the broker",
    "consumerStatus -g no_such_group": "Java does not find the group's retry topic, ours nobody of the group",
}

# Kind of brokers → command → why only Java's tool fails.
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

# Prefix of a command → difference in our output for the same cluster, and its reason.
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

# Commands and options introduced with 5.x, compared with Java's tool of 5.5.0.
_NOT_KNOWN = "of a cluster that is not known Java goes on as if it had no brokers; ours fails, and names those that are"
_PROPERTY = (r"(?<=Properties: )\{|, (?=[\w-]+=)|\}$", "\n")
_HELPED = Difference("Java prints its help after it has done it", apache=("usage: .*", r" .*"))
_NO_FILE = Difference(
    "Java ends with 0 where the file is not there; ours fails",
    apache=(r"the file path \S+ does not exists",),
    ours=(r"Error: file \S+ cannot be read: No such file or directory",),
)

_HELP = Difference("Java finds flags missing even where help is asked for", apache=("Missing required options?: .*",))

LATER: dict[str, Difference] = {
    **{f"{name} -h": _HELP for name in ("setConsumeMode", "updateTopicList", "updateSubGroupList")},
    "haStatus -c NoSuchCluster": Difference(
        _NOT_KNOWN, apache=(r"\[error\] Make sure the specified clusterName exists .*",), ours=(r"Error: cluster .*",)
    ),
    "clusterList -c": Difference(
        "ours prints the columns of 4.9.8; 5.5 also tells of its timer, and whether a broker is active",
        ((r" #Timer\(Progress\)| #ACTIVATED", ""), (r" \d+-\d+\([^)]*\)|(?<=#\.#) (true|false)$", "")),
    ),
    "consumerProgress -g compat_consumer -t script": Difference(
        "ours prints the columns of 4.9.8; 5.5 also tells what is in flight",
        (
            (r" #Inflight", ""),
            (r"^((\S+ ){2}(\d+ ){3}\d+) \d+ (?=TIME$|N/A$)", r"\1 "),
            (r"^Consume (?=Diff Total)", ""),
        ),
        apache=(r"Consume Inflight Total: 0",),
    ),
    "consumerProgress -g compat_consumer -t no_such_topic": Difference(
        "Java prints a table without rows of a topic that is not there; ours fails",
        apache=(".*",),
        ours=(r"Error: no NameServer has a route of topic 'no_such_topic' .*",),
    ),
    "queryMsgById": Difference("5.5 prints properties in another order", (_PROPERTY,)),
    "queryMsgByKey": Difference(
        "ours prints the columns of 4.9.8; 5.5 also tells the key in its index", ((r" #IndexKey$| \S+@\S+$", ""),)
    ),
    "topicRoute -t listed_2": Difference(
        "5.5 prints a member that says nothing, and each broker in a line",
        ((r'(?<="brokerAddrs":\{)\s+', ""), (r',\s+"enableActingMaster":false', "")),
    ),
    "updateTopicList -c": _HELPED,
    "updateSubGroupList -c": _HELPED,
    "updateTopicList -b {address} -f {missing}": _NO_FILE,
    "updateSubGroupList -b {address} -f {missing}": _NO_FILE,
}

# Plain ACLs (4.x), and users and policies (5.x), on brokers with ACL enabled.
_ODD = Difference(
    "a broker of 5.5 takes a type or a state that it does not know for none; ours fails",
    apache=(r"(create|update) user to BROKER success\.",),
    ours=(r"Error: --user(Type|Status) '(Odd|asleep)': \w+ and \w+ are known", "usage: .*", r" .*"),
)
ACCESS: dict[str, Difference] = {
    **{f"{verb}{what} -h": _HELP for verb in ACCOUNT_VERBS for what in ACCOUNT_KINDS},
    "updateAclConfig": Difference(
        "Java prints the name of an object, ours the access key",
        ((r"^org\.apache\.rocketmq\.common\.PlainAccessConfig@OBJECT$|^account's accesskey is:\S+$", "ACCOUNT"),),
    ),
    **{
        f"{name} -h": Difference(
            "Java finds flags missing even where help is asked for, though not the one without which it cannot do",
            ((r"^(usage: mqadmin get\w+ .*)\[(-\w <arg>)\]$", r"\1\2"),),
            apache=_HELP.apache,
        )
        for name in ("getUser", "getAcl")
    },
    "deleteUser -h": Difference(
        "Java finds flags missing even where help is asked for, and calls a user a policy",
        (("delete acl from which cluster", "delete user from which cluster"),),
        apache=_HELP.apache,
    ),
    "createUser -b {address} -u dave -p dave-12345678 -t Odd": _ODD,
    "updateUser -b {address} -u alice -t Odd": _ODD,
    "updateUser -b {address} -u alice -s asleep": _ODD,
    "updateUser -b {address} -u bob -t Normal -s disable": Difference(
        "Java takes one of these flags at a time; ours takes several",
        apache=("usage: .*", r" .*", "The option 's' was specified but .*"),
        ours=(r"update user to BROKER success\.",),
    ),
    "updateUser -u alice -b {address}": Difference(
        "ours says first what is wrong, in its own words; it takes several of these flags",
        ((r"^(usage: mqadmin updateUser ).*", r"\1"),),
        apache=("Missing required option: .*",),
        ours=("Error: give one of .*",),
    ),
    "updateUser -h": Difference(
        "Java takes one of these flags at a time; ours takes several",
        ((r"^(usage: mqadmin updateUser ).*", r"\1"),),
        apache=_HELP.apache,
    ),
}
