import asyncio

from kerolox.admin import AdminClient
from kerolox.dashboard import sampler as module
from kerolox.dashboard.sampler import Sampler
from kerolox.dashboard.server import DashboardOptions
from kerolox.runtime.clock import ManualClock
from kerolox.testing import Cluster
from tests.dashboard import filling


async def test_a_sample_has_rates_latency_lag_and_disk_usage(cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    await admin.groups.create("shop")
    await filling.send(cluster.namesrv_addr, *(filling.order(number) for number in range(5)))
    await admin.offsets.commit("shop", (await admin.topics.route("orders")).read_queues[0], 2)
    sampler = Sampler(admin, DashboardOptions(sample_seconds=0.01))
    sampling = asyncio.create_task(sampler.run())

    async with asyncio.timeout(60):
        while not sampler.samples:
            await asyncio.sleep(0.01)
    sampling.cancel()

    sample = sampler.samples[0]
    assert sample.lag["shop"] == 3
    assert sample.response_time["broker-a"] >= 0
    assert 0 <= sample.disk["broker-a"] <= 1
    assert set(sample.series()) == {"in", "out", "putLatency", "answerTime", "lag", "disk"}
    assert sampler.since(sample.millis - 1)[0] is sample
    assert all(later.millis > sample.millis for later in sampler.since(sample.millis))


async def test_an_unreachable_cluster_leaves_a_gap_and_an_error() -> None:
    clock = ManualClock()
    async with AdminClient(namesrv_addr="127.0.0.1:1") as admin:
        sampler = Sampler(admin, DashboardOptions(clock=clock))
        sampling = asyncio.create_task(sampler.run())
        async with asyncio.timeout(60):
            while sampler.error is None:
                await asyncio.sleep(0.01)
        sampling.cancel()

    assert not sampler.samples


async def test_samples_are_kept_for_an_hour(admin: AdminClient) -> None:
    sampler = Sampler(admin, DashboardOptions())
    for millis in range(module.SAMPLES_MAX + 10):
        sampler.samples.append(module.Sample(millis))

    assert len(sampler.since(-1)) == module.SAMPLES_MAX
    assert sampler.since(-1)[0].millis == 10
