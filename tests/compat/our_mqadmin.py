"""Runs our mqadmin, and lists the accepted differences between its output and Java's."""

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
from tests.compat.broker_differences import Difference
from tests.compat.waiting import eventually

ENDLESS_SECONDS = 90.0

_CODE = re.compile(r"CODE: (\d+) ")
_OUR_CODE = re.compile(r"\(\w[\w ]*, (\d+)\)")
_TRACE = re.compile(r"^\s*at [\w.$]+\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Output:
    """Output on both streams, and the exit code."""

    text: str
    code: int

    @property
    def is_failure(self) -> bool:
        return self.code != 0


def run(*arguments: str, namesrv: str, environment: Mapping[str, str] | None = None) -> Output:
    """Run our tool in this process."""
    # Some commands write files to the working directory.
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        result = CliRunner().invoke(mqadmin, [*arguments, "-n", namesrv], env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Output(result.output, result.exit_code)


def run_until(line: str, *arguments: str, namesrv: str) -> str:
    """Run our tool until it prints a line that matches; stop it and return the output."""
    program = [sys.executable, "-u", "-c", "from kerolox.cli.admin.tool import mqadmin; mqadmin()"]
    with temporary_home() as home, running([*program, *arguments, "-n", namesrv], home) as process:
        eventually(lambda: re.search(line, process.output()) is not None, ENDLESS_SECONDS, f"round of {arguments[0]}")
        return process.output()


def has_stack_trace(java: str) -> bool:
    """Whether Java's tool ended with a stack trace."""
    return _TRACE.search(java) is not None


def both_fail(arguments: tuple[str, ...], java: str, ours: Output, other_reasons: Mapping[str, str]) -> str:
    """Return the result for the table if both tools fail; raise AssertionError if ours did not fail like Java's."""
    assert ours.is_failure, ours.text
    reason = other_reasons.get(" ".join(arguments))
    if reason is not None:
        return f"both fail: {reason}"
    # A command with wrong arguments prints its options after the error.
    errors = [line for line in ours.text.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, ours.text
    assert "Traceback" not in ours.text
    codes = _CODE.findall(java)
    own = _OUR_CODE.findall(errors[0])
    if codes and own:
        assert own[-1] in codes, f"Java: {codes}, ours: {errors[0]}"
    return "both fail: Java with a stack trace, ours with an error message"


# Commands that fail in both tools for different reasons.
OTHER_REASONS = {
    "updateTopic -b {address} -t no good name": "ours checks the name before it sends a request",
    "consumerStatus -g no_such_group": "Java does not find the group's retry topic, ours finds no member of the group",
}

# Kind of brokers → command → why only Java's tool fails.
_RENAMED_TPS = "the tool of 4.9.8 fails with Apache's 5.5, which renamed getTransferedTps; ours does not"
ONLY_JAVA_FAILS = {
    "5.5.0": {
        "clusterList": _RENAMED_TPS,
        "exportMetrics": _RENAMED_TPS,
        "exportConfigs": "the tool of 4.9.8 fails with Apache's 5.5, which has no filterServerNums; ours does not",
    }
}

_NEVER_ONLINE = Difference(
    "for a group that was never online, Java prints UNKNOWN and an exception; ours prints NOT_ONLINE",
    (
        (r"\](?=MessageTrack )", "]\n"),
        (r"(?<=consumerGroup=other_consumer, ).*", "#"),
        (r"^(See https|For more).*", ""),
    ),
    depends_on_timing=True,
)

_TOOL_TOPIC = Difference(
    "after both tools have run, there is one more topic, for their group",
    ((r"(?<=OK, )\d+$", "#"),),
    depends_on_timing=True,
)

# Prefix of a command → difference in our output for the same cluster, and its reason.
DIFFERENCES: dict[str, Difference] = {
    "queryMsgByOffset -t script -b broker-a -i 0 -o 999": Difference(
        "Java prints nothing if there is no message at an offset; ours prints an error",
        ours=(r"Error: no message at offset .*",),
    ),
    "exportMetrics": Difference(
        "each tool prints its own release, and rates change with time",
        ((r'"rocketmqVersion":"\w+"', '"rocketmqVersion":"#"'), (r'("\w*Tps"):[\d.#E-]+', r"\1:#")),
        depends_on_timing=True,
    ),
    "consumerProgress -g compat_consumer -t": Difference(
        "4.9.8 does not have this flag, and prints its help; ours has the flag of 5.x", apache=(".*",), ours=(".*",)
    ),
    "sendMsgStatus": Difference(
        "both tools send to the same queue, so their queue offsets differ",
        ((r"(?<=queueOffset=)\d+", "#"),),
        depends_on_timing=True,
    ),
    "startMonitoring": Difference(
        "Java's also reports offsets that moved before it started, if its group has not consumed these events",
        apache=(r"\[MONITOR\] reportDeleteMsgsEvent: .*",),
        depends_on_timing=True,
    ),
    "wipeWritePerm": _TOOL_TOPIC,
    "addWritePerm": _TOOL_TOPIC,
    "queryMsgById -i {offset_id}": _NEVER_ONLINE,
    "queryMsgByUniqueKey -i {unique} -t script": _NEVER_ONLINE,
    "queryMsgByOffset": _NEVER_ONLINE,
}

# Commands and options introduced with 5.x, compared with Java's tool of 5.5.0.
_UNKNOWN_CLUSTER = (
    "for an unknown cluster, Java continues as if it had no brokers; ours fails and names the known clusters"
)
_PROPERTY = (r"(?<=Properties: )\{|, (?=[\w-]+=)|\}$", "\n")
_NO_INDEX_KEY = Difference(
    "without -p and -l, ours prints the columns of 4.9.8; 5.5 also prints the index key",
    ((r" #IndexKey$| \S+@\S+$", ""),),
)
_HELP_PRINTED = Difference("Java prints its help after it has run the command", apache=("usage: .*", r" .*"))
_NO_FILE = Difference(
    "Java exits with 0 if the file does not exist; ours fails",
    apache=(r"the file path \S+ does not exists",),
    ours=(r"Error: file \S+ cannot be read: No such file or directory",),
)

_HELP = Difference("Java reports missing flags even with -h", apache=("Missing required options?: .*",))

DIFFERENCES_5X: dict[str, Difference] = {
    **{f"{name} -h": _HELP for name in ("setConsumeMode", "updateTopicList", "updateSubGroupList")},
    "haStatus -c NoSuchCluster": Difference(
        _UNKNOWN_CLUSTER,
        apache=(r"\[error\] Make sure the specified clusterName exists .*",),
        ours=(r"Error: unknown cluster 'NoSuchCluster'; known clusters: .*",),
    ),
    "clusterList -c": Difference(
        "ours prints the columns of 4.9.8; 5.5 also prints the timer progress, and whether a broker is active",
        ((r" #Timer\(Progress\)| #ACTIVATED", ""), (r" \d+-\d+\([^)]*\)|(?<=#\.#) (true|false)$", "")),
    ),
    "consumerProgress -g compat_consumer -t script": Difference(
        "ours prints the columns of 4.9.8; 5.5 also prints the number of messages in flight",
        (
            (r" #Inflight", ""),
            (r"^((\S+ ){2}(\d+ ){3}\d+) \d+ (?=TIME$|N/A$)", r"\1 "),
            (r"^Consume (?=Diff Total)", ""),
        ),
        apache=(r"Consume Inflight Total: 0",),
    ),
    "consumerProgress -g compat_consumer -t no_such_topic": Difference(
        "for an unknown topic, Java prints an empty table; ours fails",
        apache=(".*",),
        ours=(r"Error: no NameServer has a route of topic 'no_such_topic' .*",),
    ),
    "queryMsgById": Difference("5.5 prints properties in another order", (_PROPERTY,)),
    **{f"queryMsgByKey -t script -k key3 {flag}": _NO_INDEX_KEY for flag in ("-b", "-m", "-c")},
    "topicRoute -t listed_2": Difference(
        "5.5 also prints a member with its default value, and each broker on its own line",
        ((r'(?<="brokerAddrs":\{)\s+', ""), (r',\s+"enableActingMaster":false', "")),
    ),
    "updateTopicList -c": _HELP_PRINTED,
    "updateSubGroupList -c": _HELP_PRINTED,
    "updateTopicList -b {address} -f {missing}": _NO_FILE,
    "updateSubGroupList -b {address} -f {missing}": _NO_FILE,
}

# Plain ACLs (4.x), and users and policies (5.x), on brokers with ACL enabled.
_UNKNOWN_VALUE = Difference(
    "a 5.5 broker ignores an unknown type or status; ours fails",
    apache=(r"(create|update) user to BROKER success\.",),
    ours=(r"Error: --user(Type|Status) '(Odd|asleep)': expected \w+ or \w+", "usage: .*", r" .*"),
)
ACL_DIFFERENCES: dict[str, Difference] = {
    **{f"{verb}{what} -h": _HELP for verb in ACCOUNT_VERBS for what in ACCOUNT_KINDS},
    "updateAclConfig": Difference(
        "Java prints the name of an object, ours the access key",
        ((r"^org\.apache\.rocketmq\.common\.PlainAccessConfig@OBJECT$|^account's accesskey is:\S+$", "ACCOUNT"),),
    ),
    **{
        f"{name} -h": Difference(
            "Java reports missing flags even with -h, and its usage marks a required flag as optional",
            ((r"^(usage: mqadmin get\w+ .*)\[(-\w <arg>)\]$", r"\1\2"),),
            apache=_HELP.apache,
        )
        for name in ("getUser", "getAcl")
    },
    "deleteUser -h": Difference(
        "Java reports missing flags even with -h, and its help says acl instead of user",
        (("delete acl from which cluster", "delete user from which cluster"),),
        apache=_HELP.apache,
    ),
    "createUser -b {address} -u dave -p dave-12345678 -t Odd": _UNKNOWN_VALUE,
    "updateUser -b {address} -u alice -t Odd": _UNKNOWN_VALUE,
    "updateUser -b {address} -u alice -s asleep": _UNKNOWN_VALUE,
    "updateUser -b {address} -u bob -t Normal -s disable": Difference(
        "Java accepts one of these flags at a time; ours accepts several",
        apache=("usage: .*", r" .*", "The option 's' was specified but .*"),
        ours=(r"update user to BROKER success\.",),
    ),
    "updateUser -u alice -b {address}": Difference(
        "ours prints its own error message first, and accepts several of these flags",
        ((r"^(usage: mqadmin updateUser ).*", r"\1"),),
        apache=("Missing required option: .*",),
        ours=("Error: give one of .*",),
    ),
    "updateUser -h": Difference(
        "Java accepts one of these flags at a time; ours accepts several",
        ((r"^(usage: mqadmin updateUser ).*", r"\1"),),
        apache=_HELP.apache,
    ),
}
