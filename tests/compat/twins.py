"""Two equal clusters, one for Java's mqadmin and one for ours: compares and keeps the output of both."""

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
from tests.apache.processes import temporary_home
from tests.apache.requirements import require_java
from tests.compat import our_mqadmin
from tests.compat.brokers import kerolox_broker
from tests.compat.commands import Step
from tests.compat.explained import Difference
from tests.compat.likeness import Likeness, likeness
from tests.compat.name_servers import kerolox_name_server
from tests.compat.our_mqadmin import both_fail, is_trace
from tests.compat.sides import Side, attend, make_topics, with_files
from tests.compat.table import Part, Table
from tests.compat.waiting import until_listed

# Both outputs of each command, unchanged.
KEPT = Path(__file__).parents[2] / "artefacts" / "compat" / "mqadmin"
# Kinds of brokers: ours and Apache's.
WHOSE = {"ours": "ours", "4.9.8": f"Apache {SERVER_VERSIONS['4.9.8']}", "5.5.0": "Apache 5.5.0"}
_PROPERTIES = {"traceTopicEnable": "true", "diskMaxUsedSpaceRatio": "95"}
_SETTLED_SECONDS = 5.0
_LINE_SECONDS = 60.0
_UNSAFE = re.compile(r"[^\w.=+-]+")


@dataclass(frozen=True, slots=True)
class Twins:
    """Java's tool runs the commands that change something on one cluster, ours on the other.

    Commands that only look are given to the second by both.
    """

    # The kind of brokers.
    whose: str
    java: Side
    ours: Side


@contextlib.contextmanager
def open_twins(kind: str, names: dict[str, str]) -> Iterator[Twins]:
    """Starts both clusters, each with its own NameServer and client; `names` are substituted in commands too."""
    require_java()
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as threads:
        started = []
        for _ in range(2):
            namesrv = stack.enter_context(kerolox_name_server())
            start = (
                kerolox_broker(namesrv.address, properties=_PROPERTIES)
                if kind == "ours"
                else servers.broker(kind, namesrv.address, properties=_PROPERTIES)
            )
            broker = stack.enter_context(start)
            asyncio.run(make_topics(broker.address))
            asyncio.run(until_listed(namesrv.address))
            started.append((namesrv, broker, stack.enter_context(temporary_home())))
        yield Twins(WHOSE[kind], *threads.map(lambda it: attend(it[0], it[1], it[2], stack, names), started))


@dataclass(frozen=True, slots=True)
class Reasons:
    """Accepted differences between our tool and Java's."""

    # Prefix of a command → difference in our output for the same cluster.
    explained: Mapping[str, Difference] = field(default_factory=dict)
    # Command → why both fail for different reasons.
    other_codes: Mapping[str, str] = field(default_factory=dict)
    # Name of a command → why only Java's tool fails.
    only_ours: Mapping[str, str] = field(default_factory=dict)

    def explanation(self, arguments: tuple[str, ...]) -> Difference | None:
        words = list(arguments)
        while words:
            found = self.explained.get(" ".join(words))
            if found is not None:
                return found
            words.pop()
        return None

    def judged(self, arguments: tuple[str, ...], java: str, ours: str) -> str:
        """Returns the entry of the table. Raises AssertionError for an unexplained difference."""
        found = likeness(java, ours)
        difference = self.explanation(arguments)
        if difference is None:
            diff = "\n".join(difflib.unified_diff(java.splitlines(), ours.splitlines(), "Java", "ours", lineterm=""))
            assert found is not Likeness.DIFFERENT, diff
            return str(found.value)
        assert found is Likeness.DIFFERENT or difference.is_sometimes, f"no longer differs: {difference.reason}"
        left = difference.left(java, ours)
        assert not left, "\n".join(left)
        return difference.reason if found is Likeness.DIFFERENT else str(found.value)


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

    def compare(self, twins: Twins, step: Step, reasons: Reasons) -> None:
        side = twins.ours if step.reads else twins.java
        deadline = time.monotonic() + (_SETTLED_SECONDS if step.reads else 0.0)
        with self.table.row(self.part, titled(step), twins.whose) as row:
            while True:
                java_text = self._wait(side, step)
                printed = our_mqadmin.run(
                    *twins.ours.filled(step), namesrv=twins.ours.namesrv.address, environment=self.environment
                )
                our_text = with_files(printed.text, self.directory)
                self._keep(twins, step, java_text, our_text)
                java = side.normalised(java_text)
                try:
                    if is_trace(java):
                        reason = None if printed.is_failure else reasons.only_ours.get(step.arguments[0])
                        row.result = reason or both_fail(step.arguments, java, printed, reasons.other_codes)
                    else:
                        row.result = reasons.judged(step.arguments, java, twins.ours.normalised(our_text))
                    break
                except AssertionError:
                    if time.monotonic() >= deadline:
                        raise

    def compare_endless(self, twins: Twins, step: Step, until: str, reasons: Reasons) -> None:
        """Compares the first round of output of commands that never end."""
        side = twins.ours
        with self.table.row(self.part, titled(step), twins.whose) as row, ThreadPoolExecutor() as threads:
            asked = threads.submit(side.endless, step, until)
            ours = our_mqadmin.run_until(until, *side.filled(step), namesrv=side.namesrv.address)
            java = asked.result()
            self._keep(twins, step, java, ours)
            row.result = reasons.judged(step.arguments, side.first_round(java, until), side.first_round(ours, until))

    def _keep(self, twins: Twins, step: Step, java: str, ours: str) -> None:
        times = sum((row.what, row.version) == (titled(step), twins.whose) for row in self.table.rows)
        keep(self.version, twins.whose, step, java, ours, times=times)

    def _wait(self, side: Side, step: Step) -> str:
        deadline = time.monotonic() + _LINE_SECONDS
        while True:
            printed = side.run(self.tool, step, self.directory)
            # A JVM that has just started may be slower than the timeout of Java's tool.
            is_late = step.reads and "RemotingTimeoutException" in printed
            if not is_late and (step.until is None or re.search(step.until, side.normalised(printed), re.MULTILINE)):
                return printed
            assert time.monotonic() < deadline, f"no line like {step.until or '...'} in: {printed}"
            time.sleep(0.2)


def keep(version: str, whose: str, step: Step, java: str, ours: str, *, times: int = 1) -> None:
    """Writes both outputs to files for readers. A repeated command gets a separate directory."""
    name = _UNSAFE.sub("_", titled(step).removeprefix("mqadmin ")) + (f"_{times}" if times > 1 else "")
    folder = KEPT / version / _UNSAFE.sub("_", whose) / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "java.txt").write_text(java)
    (folder / "kerolox.txt").write_text(ours)


def titled(step: Step) -> str:
    """Returns the title in the table; values that differ between brokers are in capitals."""
    return re.sub(r"{(\w+)}", lambda name: name[1].upper(), step.title)
