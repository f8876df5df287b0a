"""Our client computes and encodes the same as Java's: queue allocation, traces and offset files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerolox.client import strategies
from kerolox.client.consumer.group.offset_store import LocalOffsetStore, encode_java_json
from kerolox.client.tracing import trace_format
from kerolox.wire.bodies.queues import MessageQueue
from tests.apache import VERSIONS
from tests.apache.processes import run_java
from tests.apache.requirements import require_java

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(300)]

QUEUES = [MessageQueue(broker, number, "orders") for broker in ("broker-a", "broker-b") for number in range(8)]
STRATEGIES = {
    strategy.name: strategy
    for strategy in (strategies.AVERAGELY, strategies.BY_CIRCLE, strategies.by_consistent_hash())
}


@pytest.fixture(scope="module", params=VERSIONS)
def java(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """The lines that Java printed, each split into its kind and the rest."""
    require_java()
    lines = run_java(request.param, "ClientFormats.java").stdout.splitlines()
    return [(kind, rest) for kind, _, rest in (line.partition(" ") for line in lines)]


def test_queues_are_allocated_as_in_java(java: list[tuple[str, str]]) -> None:
    shares = [rest.split(" ") for kind, rest in java if kind == "share"]
    assert len(shares) == 45
    for name, count, member, *expected in shares:
        members = [f"10.0.0.{number}@77#{number * 1000}" for number in range(int(count))]

        share = STRATEGIES[name].allocate(QUEUES, members, member)

        assert [f"{queue.broker_name}:{queue.queue_id}" for queue in share] == expected, (name, count, member)


def test_traces_are_encoded_as_in_java(java: list[tuple[str, str]]) -> None:
    pub, before, after = (rest.replace("|", "\x01").replace("$", "\x02") for kind, rest in java if kind == "trace")

    assert pub == trace_format.encode(
        trace_format.Pub(
            timestamp=1700000000000,
            region_id="DefaultRegion",
            group="group",
            topic="orders",
            message_id="ID",
            tags="TagA",
            keys="k1 k2",
            store_host="127.0.0.1:10911",
            body_size=5,
            cost_millis=3,
            message_type=trace_format.DELAY,
            offset_id="OFFSET",
        )
    )
    assert before == trace_format.encode(
        trace_format.SubBefore(
            timestamp=1700000000000,
            region_id="DefaultRegion",
            group="group",
            request_id="REQUEST",
            message_id="ID",
            retry_times=2,
            keys="k1 k2",
        )
    )
    assert after == trace_format.encode(
        trace_format.SubAfter(
            request_id="REQUEST",
            message_id="ID",
            cost_millis=3,
            is_success=False,
            keys="k1 k2",
            context_code=trace_format.EXCEPTION,
            timestamp=1700000000000,
            group="group",
        )
    )


async def test_offset_files_are_read_and_written_as_in_java(java: list[tuple[str, str]], tmp_path: Path) -> None:
    (written,) = (rest.replace("~", "\n") for kind, rest in java if kind == "offsets")
    path = tmp_path / "offsets.json"
    path.write_text(written)
    offsets = LocalOffsetStore(path)

    await offsets.load()

    assert offsets.of_topic("orders") == {QUEUES[3]: 1368}
    # The newest release writes another layout, and reads both.
    if "{{" in written:
        assert encode_java_json({QUEUES[3]: 1368}).decode() == written
