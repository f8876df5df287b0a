"""Two clusters that are alike, one for Java's mqadmin and one for ours: what both print is compared, and kept."""

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

# Both texts of each command, as they were printed.
KEPT = Path(__file__).parents[2] / "artefacts" / "compat" / "mqadmin"
# Whose brokers: ours, and those of Apache.
WHOSE = {"ours": "ours", "4.9.8": f"Apache {SERVER_VERSIONS['4.9.8']}", "5.5.0": "Apache 5.5.0"}
_PROPERTIES = {"traceTopicEnable": "true", "diskMaxUsedSpaceRatio": "95"}
_SETTLED_SECONDS = 5.0
_LINE_SECONDS = 60.0
_UNSAFE = re.compile(r"[^\w.=+-]+")


@dataclass(frozen=True, slots=True)
class Twins:
    """Commands that change something are given to one by Java's tool, to the other by ours.

    Commands that only look are given to the second by both.
    """

    # Whose brokers they are.
    whose: str
    java: Side
    ours: Side


@contextlib.contextmanager
def open_twins(kind: str, names: dict[str, str]) -> Iterator[Twins]:
    """Starts them, each with a NameServer and a client of its own; `names` are filled in too."""
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
    """Why ours may do something else than Java's."""

    # By the beginning of a command: what ours prints differently of the same cluster.
    explained: Mapping[str, Difference] = field(default_factory=dict)
    # By the command: where both fail, though not for the same reason.
    other_codes: Mapping[str, str] = field(default_factory=dict)
    # By the name of a command: where only Java's tool fails.
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
        """What the table says of it; AssertionError if something differs that is not explained."""
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
    """Java's tool beside ours; files that commands write lie in `directory`."""

    part: Part
    version: str
    tool: Admin
    directory: Path
    table: Table
    # What both are told by their environment.
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
        """Compares what both print in their first round."""
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
            # A machine that has just begun may take longer than Java's tool waits.
            is_late = step.reads and "RemotingTimeoutException" in printed
            if not is_late and (step.until is None or re.search(step.until, side.normalised(printed), re.MULTILINE)):
                return printed
            assert time.monotonic() < deadline, f"no line like {step.until or '...'} in: {printed}"
            time.sleep(0.2)


def keep(version: str, whose: str, step: Step, java: str, ours: str, *, times: int = 1) -> None:
    """Lays both texts down for people. What is given a second time, later on, has a folder of its own."""
    name = _UNSAFE.sub("_", titled(step).removeprefix("mqadmin ")) + (f"_{times}" if times > 1 else "")
    folder = KEPT / version / _UNSAFE.sub("_", whose) / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "java.txt").write_text(java)
    (folder / "kerolox.txt").write_text(ours)


def titled(step: Step) -> str:
    """What the table calls it: what differs from broker to broker in capitals."""
    return re.sub(r"{(\w+)}", lambda name: name[1].upper(), step.title)
