import asyncio

from kerolox.admin import AdminClient
from kerolox.dashboard import samples
from kerolox.dashboard.samples import Samples
from kerolox.dashboard.server import DashboardOptions
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from tests.dashboard import filling


async def test_a_sample_has_rates_latency_lag_and_disk(cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await admin.groups.create("shop")
    await filling.send(cluster.namesrv_addr, *(filling.order(number) for number in range(5)))
    await admin.offsets.commit("shop", (await admin.topics.route("orders")).read_queues[0], 2)
    found = Samples(admin, DashboardOptions(sample_seconds=0.01))
    looking = asyncio.create_task(found.run())

    async with asyncio.timeout(60):
        while not found.ring:
            await asyncio.sleep(0.01)
    looking.cancel()

    sample = found.ring[0]
    assert sample.lag["shop"] == 3
    assert sample.answer_time["broker-a"] >= 0
    assert 0 <= sample.disk["broker-a"] <= 1
    assert set(sample.series()) == {"in", "out", "putLatency", "answerTime", "lag", "disk"}
    assert found.since(sample.millis - 1)[0] is sample
    assert all(later.millis > sample.millis for later in found.since(sample.millis))


async def test_a_cluster_that_is_away_leaves_a_gap_and_a_reason() -> None:
    clock = ManualClock()
    async with AdminClient(namesrv_addr="127.0.0.1:1") as admin:
        found = Samples(admin, DashboardOptions(clock=clock))
        looking = asyncio.create_task(found.run())
        async with asyncio.timeout(60):
            while found.error is None:
                await asyncio.sleep(0.01)
        looking.cancel()

    assert not found.ring


async def test_the_ring_holds_no_more_than_an_hour(admin: AdminClient) -> None:
    found = Samples(admin, DashboardOptions())
    for millis in range(samples.SAMPLES_MAX + 10):
        found.ring.append(samples.Sample(millis))

    assert len(found.since(-1)) == samples.SAMPLES_MAX
    assert found.since(-1)[0].millis == 10
