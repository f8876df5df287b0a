"""State of the broker, and cleanup on request."""

import asyncio
from pathlib import Path

import pytest

from kerolox.codes import RequestCode
from kerolox.errors import NoPermission, RequestCodeNotSupported, SystemFailure
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.offsets import BrokerStatsData, ConsumerOffsetTable, HaRuntimeInfo
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import broker as h
from kerolox.wire.headers import replication as r
from kerolox.wire.headers.namesrv import NotifyMinBrokerIdChange
from kerolox.wire.headers.offsets import GetAllConsumerOffset, GetAllDelayOffset
from tests.broker.brokers import BrokerFixture, running
from tests.broker.name_servers import FakeNameServer

NOW = 1_700_049_600_000
RATES = ("putTps", "getTotalTps", "getFoundTps", "getMissTps", "getTransferredTps", "getTransferedTps")
NUMBERS = """
    bootTimestamp brokerVersion commitLogDiskRatio commitLogMaxOffset commitLogMinOffset
    consumeQueueDiskRatio dispatchBehindBytes earliestMessageTimeStamp EndTransactionQueueSize
    EndTransactionThreadPoolQueueCapacity getMessageEntireTimeMax msgGetTotalTodayMorning
    msgGetTotalTodayNow msgGetTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow
    msgPutTotalYesterdayMorning pageCacheLockTimeMills pullThreadPoolQueueCapacity
    pullThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueSize putLatency99 putLatency999
    putMessageAverageSize putMessageEntireTimeMax putMessageSizeTotal putMessageTimesTotal
    queryThreadPoolQueueCapacity queryThreadPoolQueueHeadWaitTimeMills queryThreadPoolQueueSize
    remainTransientStoreBufferNumbs sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
    sendThreadPoolQueueSize startAcceptSendRequestTimeStamp timerCongestNum timerDequeueTps timerEnqueueTps
    timerOffsetBehind timerReadBehind
"""
TEXTS = """
    brokerActive brokerVersionDesc commitLogDirCapacity putMessageDistributeTime remainHowManyDataToFlush
    runtime
"""


async def table(broker: BrokerFixture) -> dict[str, str]:
    return KVTable.decode((await broker.call(h.GetBrokerRuntimeInfo())).body).table


async def test_every_key_that_tools_read_exists_from_the_start(broker: BrokerFixture) -> None:
    found = await table(broker)

    assert [key for key in (*RATES, *NUMBERS.split(), *TEXTS.split()) if key not in found] == []
    assert [float(found[key]) for key in NUMBERS.split()]
    assert [[float(rate) for rate in found[key].split()] for key in RATES] == [[0.0] * 3] * len(RATES)
    log = broker.broker.store.config.commit_log_directory
    assert found[f"commitLogDiskRatio_{log}"] == found["commitLogDiskRatio"]
    assert found["commitLogDirCapacity"].startswith("Total : ")


async def test_sent_and_pulled_messages_are_reported(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with running(tmp_path, clock) as broker:
        await broker.send("orders", b"first")
        for _ in range(9):
            await broker.send("orders", b"more")
        await broker.pull("orders", 0)
        await broker.send("orders", b"later", DELAY="2")
        await clock.advance(10)

        found = await table(broker)
        stats = BrokerStatsData.decode(
            (await broker.call(h.ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key="orders"))).body
        )

        assert [float(rate) for rate in found["putTps"].split()] == pytest.approx([1.1] * 3)
        assert found["getTransferredTps"].split()[0] == "1.0"
        assert (found["msgPutTotalTodayNow"], found["msgGetTotalTodayNow"]) == ("11", "10")
        assert found["runtime"] == "[ 0 days, 0 hours, 0 minutes, 10 seconds ]"
        assert int(found["commitLogMaxOffset"]) >= int(found["putMessageSizeTotal"]) > 1000
        assert found["scheduleMessageOffset_2"].endswith(",1")
        assert (stats.stats_minute.sum, stats.stats_minute.tps, stats.stats_minute.avgpt) == (11, 1.1, 1.0)
        with pytest.raises(SystemFailure, match="The stats <TOPIC_PUT_NUMS> <nothing> not exist"):
            await broker.call(h.ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key="nothing"))


async def test_a_waiting_pull_is_not_counted_as_load(broker: BrokerFixture) -> None:
    """Otherwise a thousand idle consumers would look like a thousand delayed requests."""
    await broker.send("orders", b"one")
    waiting = asyncio.create_task(broker.pull("orders", 1, sys_flag=0x6, suspend_timeout_millis=30_000))
    await broker.until_waiting("orders")

    found = await table(broker)

    assert (found["pullThreadPoolQueueSize"], found["litePullThreadPoolQueueSize"]) == ("0", "0")
    await broker.send("orders", b"two")
    assert (await waiting).body


async def test_queues_and_files_are_cleaned_on_request(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    await broker.send("unused", b"one")
    broker.broker.topics.delete("unused")

    await broker.call(h.CleanUnusedTopic())
    await broker.call(h.CleanExpiredConsumeQueue())
    await broker.call(h.DeleteExpiredCommitLog())

    assert broker.broker.store.queues.get("unused", 0) is None
    assert broker.broker.store.queues.get("orders", 0) is not None
    assert broker.broker.store.retention._rounds_requested > 0


async def test_a_slave_gets_the_tables_it_needs(broker: BrokerFixture) -> None:
    for number in range(1200):
        broker.broker.offsets.commit(f"group{number}", "orders", 3, number)
    await broker.send("orders", b"later", DELAY="1")

    offsets = ConsumerOffsetTable.decode((await broker.call(GetAllConsumerOffset())).body)
    delays = (await broker.call(GetAllDelayOffset())).body
    checkpoint = (await broker.call(r.GetTimerCheckPoint())).body
    metrics = (await broker.call(r.GetTimerMetrics())).body
    status = HaRuntimeInfo.decode((await broker.call(r.GetBrokerHaStatus())).body)

    assert offsets.offset_table == broker.broker.offsets.table
    assert offsets.data_version == broker.broker.offsets.data_version
    assert b'"offsetTable"' in delays
    assert len(checkpoint) == 56
    assert "timingCount" in fastjson.decode(metrics, dict)
    assert (status.master, status.in_sync_slave_nums, status.ha_connection_info) == (True, 0, [])
    assert status.master_commit_log_max_offset == broker.broker.store.log.end_offset


async def test_timer_requests_fail_without_the_timer(tmp_path: Path) -> None:
    async with running(tmp_path, timerWheelEnable="false") as broker:
        with pytest.raises(SystemFailure):
            await broker.call(r.GetTimerCheckPoint())
        with pytest.raises(SystemFailure):
            await broker.call(r.GetTimerMetrics())
        assert (await table(broker))["timerReadBehind"] == "0"


async def test_filter_servers_are_reported_until_their_registration_expires(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with running(tmp_path, clock) as broker, Client() as other:
        registered = await broker.call(h.RegisterFilterServer(filter_server_addr="10.0.0.1:40001"))
        assert (registered.fields.broker_name, registered.fields.broker_id) == ("broker-a", 0)
        await other.call(broker.broker.address, h.RegisterFilterServer(filter_server_addr="10.0.0.1:40002"))
        assert broker.broker.registration.requests.filter_servers() == ["10.0.0.1:40001", "10.0.0.1:40002"]

        await clock.advance(25)
        await broker.call(h.RegisterFilterServer(filter_server_addr="10.0.0.1:40001"))
        await clock.advance(20)

        assert broker.broker.registration.requests.filter_servers() == ["10.0.0.1:40001"]


async def test_filter_classes_are_refused_with_a_reason_and_other_codes_as_unknown(broker: BrokerFixture) -> None:
    with pytest.raises(NoPermission, match="filter by tags"):
        await broker.call(h.RegisterMessageFilterClass(class_name="Evil"), b"class Evil {}")

    for code in (2001, 2002, 2003, 2004):

        class Cold(Request[Empty], code=RequestCode(code)):
            pass

        with pytest.raises(RequestCodeNotSupported):
            await broker.call(Cold())


async def test_a_change_of_the_minimum_broker_id_is_logged_and_causes_no_registration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    notice = NotifyMinBrokerIdChange(min_broker_id=0, min_broker_addr="10.0.0.1:10911", ha_broker_addr="10.0.0.1:10912")
    async with FakeNameServer() as namesrv, running(tmp_path, namesrvAddr=namesrv.address) as broker:
        await broker.call(notice)

        assert len(namesrv.bodies) == 1
    assert "the minimum broker id is now 0 at 10.0.0.1:10911" in caplog.text
