"""What Apache's mqadmin prints does not depend on whether it asked Apache's broker or ours."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.apache import servers
from tests.apache.admin import Admin, admin
from tests.apache.processes import Process, run_java
from tests.compat import stage
from tests.compat.broker_commands import ADDRESS, EXPLAINED, GROUP, KEYED, ONCE, REFUSED, normalised, script
from tests.compat.brokers import kerolox_broker
from tests.compat.commands import Step
from tests.compat.features import Pair, topic_of
from tests.compat.likeness import Likeness, likeness
from tests.compat.name_servers import kerolox_name_server
from tests.compat.table import Part, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_VERSION = "4.9.8"
# Ours answers as a broker of 5.x does, so that one is its yardstick.
_BROKER_VERSION = "5.5.0"
_MESSAGES = 16
_SETTLED_SECONDS = 4.0
_TOPIC = topic_of("mqadmin", "script")
_KEY = re.compile(r"^(\w+)\s*[:=]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Side:
    """A broker with a NameServer of its own and sixteen messages that were consumed."""

    namesrv: Process
    broker: Process

    def ask(self, tool: Admin, step: Step) -> str:
        if step.arguments[0] in ONCE:
            tool.close()
        arguments = [word.replace(ADDRESS, self.broker.address) for word in step.arguments]
        return normalised(stage.ask(tool, self.namesrv, *arguments), self.broker.address)


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    with contextlib.ExitStack() as stack:
        both = []
        for start in (lambda namesrv: servers.broker(_BROKER_VERSION, namesrv), kerolox_broker):
            namesrv = stack.enter_context(kerolox_name_server())
            broker = stack.enter_context(start(namesrv.address))
            asyncio.run(Pair(namesrv.address, (broker,)).make_topics("mqadmin", ["script"]))
            run_java(_VERSION, "Produce.java", namesrv.address, _TOPIC, str(_MESSAGES))
            run_java(_VERSION, "Consume.java", namesrv.address, _TOPIC, GROUP, str(_MESSAGES), "60")
            both.append(Side(namesrv, broker))
        yield both[0], both[1]


@pytest.fixture(scope="module")
def tool() -> Iterator[Admin]:
    with admin(_VERSION) as it:
        yield it


@pytest.mark.parametrize("step", script(_TOPIC), ids=lambda step: step.title)
def test_a_command_prints_the_same(sides: tuple[Side, Side], tool: Admin, table: Table, step: Step) -> None:
    with table.row(Part.MQADMIN, step.title.replace(ADDRESS, "BROKER"), _VERSION) as row:
        deadline = time.monotonic() + (_SETTLED_SECONDS if step.reads else 0.0)
        while True:
            apache, ours = (side.ask(tool, step) for side in sides)
            if step.arguments[0] in KEYED:
                row.result = _keys(apache, ours)
                return
            found = likeness(apache, ours)
            if found is not Likeness.DIFFERENT or time.monotonic() >= deadline:
                break
        row.result = found.value
        explanation = EXPLAINED.get(step.arguments[0])
        if found is Likeness.DIFFERENT and explanation is not None:
            assert ("Exception" in ours) == (step.arguments[0] in REFUSED), ours
            row.result = explanation
            return
        difference = difflib.unified_diff(apache.splitlines(), ours.splitlines(), "apache", "ours", lineterm="")
        assert found is not Likeness.DIFFERENT, "\n".join(difference)


def _keys(apache: str, ours: str) -> str:
    theirs, own = set(_KEY.findall(apache)), set(_KEY.findall(ours))
    assert theirs, apache
    assert own, ours
    return f"{len(theirs & own)} of {len(theirs)} lines"
