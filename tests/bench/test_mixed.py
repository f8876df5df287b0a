"""Mixed pulls of several groups beside ordinary traffic."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import broker_tables as tables
from bench.broker import main
from bench.compiled import CompiledGenerator, CompiledResult
from bench.frames import Ring
from bench.generator import Load
from bench.messages import PULL_SIZE, QUEUES
from bench.mixed import BACKLOG, BACKLOG_SIZE, QUIET_TOPIC, SUBSCRIPTIONS, TRAFFIC, Mixed, backlog_ends, measure, pulls
from bench.report import KEROLOX
from bench.run import Profile
from kerolox.wire.command import BINARY, JSON
from kerolox.wire.headers.messages import PullMessage
from tests.apache.requirements import unmet
from tests.bench.rings import commands

OLDER = "Apache 4.9.7"
SUBSCRIPTION_BIT = 4
END = 50_000
ENDS = {**{topic: [END] * QUEUES for topic in BACKLOG.topic_names}, QUIET_TOPIC: [7] * QUEUES}


def headers(ring: Ring) -> list[PullMessage]:
    return [PullMessage.decode(command.ext) for command in commands(ring)]


def result(rate: int, *, empty: int = 0, cpu: float = 0.5, p99: float = 0.001) -> CompiledResult:
    return CompiledResult(rate, 1.0, cpu, 0.0, p99 / 2, p99, [], 0, "", empty, 1000 * rate)


def test_pulls_carry_their_subscription_and_do_not_wait() -> None:
    found = commands(pulls(1, ENDS))

    assert {command.code for command in found} == {11}
    assert {command.serialization for command in found} == {JSON, BINARY}
    asked = headers(pulls(1, ENDS))
    assert {(pull.sys_flag, pull.expression_type, pull.max_msg_nums) for pull in asked} == {
        (SUBSCRIPTION_BIT, "TAG", PULL_SIZE)
    }
    assert {(pull.consumer_group, pull.subscription) for pull in asked} == {
        (each.group, each.expression) for each in SUBSCRIPTIONS
    }


def test_pulls_read_all_queues_of_topics_with_producers_and_of_the_quiet_one() -> None:
    queues = {(pull.topic, pull.queue_id) for pull in headers(pulls(1, ENDS))}

    assert queues == {(topic, queue_id) for topic in ENDS for queue_id in range(QUEUES)}
    assert set(BACKLOG.topic_names) < set(TRAFFIC.topic_names)
    assert QUIET_TOPIC not in TRAFFIC.topic_names


def test_every_pull_finds_as_many_stored_messages_as_it_examines_or_is_at_a_quiet_end() -> None:
    newest: dict[str, set[int]] = {each.expression: set() for each in SUBSCRIPTIONS}
    past: set[int] = set()
    for pull in headers(pulls(1, ENDS)):
        assert pull.subscription is not None
        if pull.topic == QUIET_TOPIC:
            assert pull.queue_offset == 7
        elif pull.queue_offset > BACKLOG_SIZE:
            newest[pull.subscription].add(END - pull.queue_offset)
        else:
            past.add(pull.queue_offset)
            assert pull.queue_offset + (PULL_SIZE if pull.subscription == "*" else 800) <= BACKLOG_SIZE

    assert newest.pop("*") == {PULL_SIZE}
    assert list(newest.values()) == [{800}, {800}]
    assert len(past) > 100


def test_brokers_with_other_offsets_get_the_same_pulls() -> None:
    def without_offsets(ring: Ring) -> list[Sequence[object]]:
        return [(pull.consumer_group, pull.topic, pull.queue_id) for pull in headers(ring)]

    assert without_offsets(pulls(2, ENDS)) == without_offsets(pulls(2, backlog_ends()))
    assert without_offsets(pulls(2, ENDS)) != without_offsets(pulls(3, ENDS))


def test_both_loads_are_measured_beside_each_other(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        unmet("needs a C compiler, cc")
    generator = CompiledGenerator(tmp_path)
    with generator.answering(100) as (port, pid):
        producers = Load(port, pid, TRAFFIC.ring(0), 4, 16, 0.05)
        found = measure(generator, producers, Load(port, pid, pulls(0, ENDS), 4, 4, 0.05), lead_seconds=0.05)
    generator.close()

    assert all(result.answered and not result.refused for result in found.results)
    assert found.pulls.body_bytes == 100 * found.pulls.answered


def test_cpu_is_that_of_both_loads() -> None:
    found = Mixed(sends=result(30_000, cpu=0.9), pulls=result(10_000, cpu=0.7))

    assert found.cores == pytest.approx(0.8)
    assert found.cpu_per_request == pytest.approx(20e-6)


def test_the_table_has_goals_for_p99_only() -> None:
    ours = Mixed(result(40_000, p99=0.002), result(5000, empty=1000, p99=0.003))
    theirs = Mixed(result(20_000, p99=0.002), result(10_000, empty=2000, p99=0.002))

    section = tables.mixed((KEROLOX, OLDER), Profile(4, 64), Profile(4, 4), {KEROLOX: [ours], OLDER: [theirs]})

    lines = {line[0]: line[1:] for line in section.lines()}
    assert lines["sends: rate"] == ["40,000/s", "20,000/s", "2.00x", "", ""]
    assert lines["pulls: rate"] == ["5,000/s", "10,000/s", "0.50x", "", ""]
    assert lines["pulls: bytes"][:2] == ["5 MB/s", "10 MB/s"]
    assert lines["pulls that find no message"][:2] == ["20.0%", "20.0%"]
    assert {label: line[-1] for label, line in lines.items() if line[-1]} == {
        "sends: p99": "met",
        "pulls: p99": "MISSED",
    }


def test_a_quick_run_writes_the_table_of_mixed_pulls(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        unmet("needs a C compiler, cc")
    page = tmp_path / "performance.md"

    wanted = ["--quick", "--seconds", "0.2", "--only", KEROLOX, "--part", "mixed"]
    run = CliRunner().invoke(main, [*wanted, "--markdown", str(page)])

    assert run.exit_code == 0, run.output
    written = page.read_text()
    assert "## PULL_MESSAGE 4x4 of several groups beside SEND_MESSAGE_V2 4x64" in written
    assert "refused" not in written
