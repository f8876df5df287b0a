"""Compares the output of Java's mqadmin with ours on two equal clusters, and keeps both outputs."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.apache import SERVER_VERSIONS, servers
from tests.apache.admin import Admin
from tests.apache.processes import Process, temporary_home
from tests.apache.requirements import require_java
from tests.compat import our_mqadmin
from tests.compat.admin_target import AdminTarget, make_topics, start_client, with_files
from tests.compat.broker_differences import Difference
from tests.compat.brokers import kerolox_broker
from tests.compat.commands import Step
from tests.compat.name_servers import kerolox_name_server
from tests.compat.our_mqadmin import both_fail, has_stack_trace
from tests.compat.similarity import Similarity, similarity
from tests.compat.table import Part, Table
from tests.compat.waiting import until_listed

# Both outputs of each command, unchanged.
KEPT = Path(__file__).parents[2] / "artefacts" / "compat" / "mqadmin"
# Kind of brokers → its name in the table.
BROKER_KINDS = {"ours": "ours", "4.9.8": f"Apache {SERVER_VERSIONS['4.9.8']}", "5.5.0": "Apache 5.5.0"}
_PROPERTIES = {"traceTopicEnable": "true", "diskMaxUsedSpaceRatio": "95"}
_SETTLED_SECONDS = 5.0
_LINE_SECONDS = 60.0
_UNSAFE = re.compile(r"[^\w.=+-]+")


@dataclass(frozen=True, slots=True)
class ClusterPair:
    """Java's tool runs commands that write on the first cluster, ours on the second.

    Both tools run commands that read on the second.
    """

    # The kind of brokers, as shown in the table.
    brokers: str
    java: AdminTarget
    ours: AdminTarget


@contextlib.contextmanager
def open_cluster_pair(kind: str, names: dict[str, str]) -> Iterator[ClusterPair]:
    """Start both clusters, each with its own NameServer and client; `names` are further placeholders of commands."""
    require_java()
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as threads:
        started: list[tuple[Process, Process, Path]] = []
        for _ in range(2):
            namesrv = stack.enter_context(kerolox_name_server())
            start = (
                kerolox_broker(namesrv.address, properties=_PROPERTIES)
                if kind == "ours"
                else servers.broker(kind, namesrv.address, properties=_PROPERTIES)
            )
            broker = stack.enter_context(start)
            asyncio.run(make_topics(broker.address, namesrv.address))
            asyncio.run(until_listed(namesrv.address))
            started.append((namesrv, broker, stack.enter_context(temporary_home())))
        clients = [threads.submit(start_client, *parts, stack, names) for parts in started]
        java, ours = (client.result() for client in clients)
        yield ClusterPair(BROKER_KINDS[kind], java, ours)


@dataclass(frozen=True, slots=True)
class Reasons:
    """Accepted differences between our tool and Java's."""

    # Prefix of a command → difference in our output for the same cluster.
    differences: Mapping[str, Difference] = field(default_factory=dict)
    # Command → why both fail for different reasons.
    other_reasons: Mapping[str, str] = field(default_factory=dict)
    # Name of a command → why only Java's tool fails.
    only_java_fails: Mapping[str, str] = field(default_factory=dict)

    def explanation(self, arguments: tuple[str, ...]) -> Difference | None:
        """Return the difference of the longest prefix of the command, or None."""
        words = list(arguments)
        while words:
            found = self.differences.get(" ".join(words))
            if found is not None:
                return found
            words.pop()
        return None

    def verdict(self, arguments: tuple[str, ...], java: str, ours: str) -> str:
        """Return the result for the table. Raises AssertionError for an unexplained difference."""
        found = similarity(java, ours)
        difference = self.explanation(arguments)
        if difference is None:
            diff = "\n".join(difflib.unified_diff(java.splitlines(), ours.splitlines(), "Java", "ours", lineterm=""))
            assert found is not Similarity.DIFFERENT, diff
            return str(found.value)
        assert found is Similarity.DIFFERENT or difference.depends_on_timing, f"no longer differs: {difference.reason}"
        unexplained = difference.unexplained_lines(java, ours)
        assert not unexplained, "\n".join(unexplained)
        return difference.reason if found is Similarity.DIFFERENT else str(found.value)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares Java's tool with ours; commands write their files to `directory`."""

    part: Part
    version: str
    tool: Admin
    directory: Path
    table: Table
    # Environment variables of both tools.
    environment: Mapping[str, str] = field(default_factory=dict)

    def compare(self, clusters: ClusterPair, step: Step, reasons: Reasons) -> None:
        """Run a command with both tools; one that reads is repeated until the outputs agree or a deadline passes."""
        target = clusters.ours if step.reads else clusters.java
        deadline = time.monotonic() + (_SETTLED_SECONDS if step.reads else 0.0)
        with self.table.row(self.part, titled(step), clusters.brokers) as row:
            while True:
                java_text = self._wait(target, step)
                arguments, namesrv = clusters.ours.arguments_of(step), clusters.ours.namesrv.address
                printed = our_mqadmin.run(*arguments, namesrv=namesrv, environment=self.environment)
                our_text = with_files(printed.text, self.directory)
                self._keep(clusters, step, java_text, our_text)
                java = target.normalised(java_text)
                try:
                    if has_stack_trace(java):
                        reason = None if printed.is_failure else reasons.only_java_fails.get(step.arguments[0])
                        row.result = reason or both_fail(step.arguments, java, printed, reasons.other_reasons)
                    else:
                        row.result = reasons.verdict(step.arguments, java, clusters.ours.normalised(our_text))
                    break
                except AssertionError:
                    if time.monotonic() >= deadline:
                        raise

    def compare_endless(self, clusters: ClusterPair, step: Step, until: str, reasons: Reasons) -> None:
        """Compare the first round of output of commands that never end."""
        target = clusters.ours
        with self.table.row(self.part, titled(step), clusters.brokers) as row, ThreadPoolExecutor() as threads:
            java_output = threads.submit(target.endless_output, step, until)
            ours = our_mqadmin.run_until(until, *target.arguments_of(step), namesrv=target.namesrv.address)
            java = java_output.result()
            self._keep(clusters, step, java, ours)
            java, ours = (target.first_round(output, until) for output in (java, ours))
            row.result = reasons.verdict(step.arguments, java, ours)

    def _keep(self, clusters: ClusterPair, step: Step, java: str, ours: str) -> None:
        times = sum((row.what, row.version) == (titled(step), clusters.brokers) for row in self.table.rows)
        keep(self.version, clusters.brokers, step, java, ours, times=times)

    def _wait(self, target: AdminTarget, step: Step) -> str:
        deadline = time.monotonic() + _LINE_SECONDS
        while True:
            printed = target.raw_output(self.tool, step, self.directory)
            # The first request of a new JVM may exceed the timeout of Java's tool.
            is_late = step.reads and "RemotingTimeoutException" in printed
            if not is_late and (step.until is None or re.search(step.until, target.normalised(printed), re.MULTILINE)):
                return printed
            assert time.monotonic() < deadline, f"no line like {step.until or '...'} in: {printed}"
            time.sleep(0.2)


def keep(version: str, brokers: str, step: Step, java: str, ours: str, *, times: int = 1) -> None:
    """Write both outputs to files. A repeated command gets another directory."""
    name = _UNSAFE.sub("_", titled(step).removeprefix("mqadmin ")) + (f"_{times}" if times > 1 else "")
    folder = KEPT / version / _UNSAFE.sub("_", brokers) / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "java.txt").write_text(java)
    (folder / "kerolox.txt").write_text(ours)


def titled(step: Step) -> str:
    """Return the title in the table; placeholders are in capitals."""
    return re.sub(r"{(\w+)}", lambda name: name[1].upper(), step.title)
