"""A store directory with pending timer messages is moved from a Java broker to Kerolox and back."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

import pytest

from kerolox.message.hosts import NO_HOST
from kerolox.message.ids import decode_handle
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import decode, encode
from kerolox.remoting.client import Client
from kerolox.runtime.clock import Clock, ManualClock, SystemClock
from kerolox.store.config import StoreConfig
from kerolox.store.log.commit_log import Append
from kerolox.store.store import Store
from kerolox.store.timer.recall import handle_of, recall
from kerolox.store.timer.timer import Timer
from tests.apache.processes import run_java
from tests.apache.requirements import require_java
from tests.apache.servers import broker, name_server
from tests.compat.java_store import until_registered
from tests.store.stores import numbered_records

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

VERSION = "5.5.0"
TOPIC = "timed"
SENT_BY_JAVA, SENT_BY_US = 20, 10
DELAY_MILLIS = 60_000


def configuration(root: Path) -> StoreConfig:
    """Return the settings of the brokers of `tests.apache.servers`."""
    return StoreConfig(
        store_path_root_dir=root,
        mapped_file_size_commit_log=16 << 20,
        mapped_file_size_consume_queue=60_000,
        max_hash_slot_num=10_000,
        max_index_num=40_000,
        # Otherwise 5.5 would not understand pending recalls.
        append_topic_for_timer_delete_key=False,
    )


async def wait_for_broker(namesrv: str) -> None:
    async with Client() as client:
        await until_registered(client, namesrv)


async def opened(settings: StoreConfig, clock: Clock) -> tuple[Store, Timer]:
    store = Store(settings, clock=clock)
    await store.open()
    timer = Timer(store, clock=clock)
    await timer.open()
    return store, timer


def work(timer: Timer) -> None:
    while timer.run_once():
        pass


def send_here(store: Store, timer: Timer, number: int, deliver: int) -> Message:
    properties = {"UNIQ_KEY": f"HERE{number}", "TIMER_DELIVER_MS": str(deliver)}
    message = timer.divert(Message(TOPIC, b"here %d" % number, to_bytes(properties), 0))
    store.append([Append(message.topic, message.queue_id, encode(message))])
    return message


def delivered(store: Store) -> list[Message]:
    return [decode(data) for queue_id in range(4) for _, data in numbered_records(store, TOPIC, queue_id)]


async def test_pending_timer_messages_survive_moving_the_store_from_java_to_kerolox_and_back(tmp_path: Path) -> None:
    require_java()
    root = tmp_path / "store"
    properties = {
        "storePathRootDir": str(root),
        "storePathCommitLog": str(root / "commitlog"),
        "recallMessageEnable": "true",
    }
    with name_server(VERSION) as naming:
        with broker(VERSION, naming.address, properties=properties) as serving:
            await wait_for_broker(naming.address)
            sent = run_java(VERSION, "Timed.java", naming.address, TOPIC, str(SENT_BY_JAVA), str(DELAY_MILLIS))
            found = re.search(rf"sent {SENT_BY_JAVA} for (\d+)", sent.stdout)
            assert found is not None, sent
            # The broker writes its queues, timer wheel and checkpoint every second.
            time.sleep(3)
            serving.terminate()
        deliver = int(found[1])
        handles = re.findall(r"handle (\S+)", sent.stdout)

        store, timer = await opened(configuration(root), SystemClock())
        work(timer)
        assert timer.pending(TOPIC) == SENT_BY_JAVA - 1
        waiting = [decode(data) for _, data in numbered_records(store, "rmq_sys_wheel_timer", 0)]
        assert [handle_of(message, "broker-a") for message in waiting[:SENT_BY_JAVA]] == handles
        assert decode_handle(handles[0]).unique_id == waiting[0].get("UNIQ_KEY")
        sent_here = [send_here(store, timer, number, deliver) for number in range(SENT_BY_US)]
        mark = recall(
            handle_of(sent_here[-1], "b") or "",
            store.config,
            SystemClock().millis(),
            topic=TOPIC,
            broker_name="b",
            born_host=NO_HOST,
            store_host=NO_HOST,
        )
        mark = timer.divert(mark)
        store.append([Append(mark.topic, mark.queue_id, encode(mark))])
        work(timer)
        assert timer.pending(TOPIC) == SENT_BY_JAVA + SENT_BY_US - 2
        assert delivered(store) == []
        await timer.close()
        await store.close()

        await check_deliveries(tmp_path / "copy", root, deliver)
        with broker(VERSION, naming.address, properties=properties) as serving:
            await wait_for_broker(naming.address)
            total = SENT_BY_JAVA + SENT_BY_US - 2
            consumed = run_java(VERSION, "Consume.java", naming.address, TOPIC, "reader", str(total), "100")
            assert f"consumed {total}\n" in consumed.stdout, consumed
            assert not {f"here {SENT_BY_US - 1}", f"there {SENT_BY_JAVA - 1}"} & set(consumed.stdout.splitlines())
            # The broker writes the progress of its timer every second, and when it stops.
            serving.terminate()

    store, timer = await opened(configuration(root), SystemClock())
    messages = delivered(store)
    assert len(messages) == total
    assert min(message.store_timestamp for message in messages) >= deliver
    assert timer.pending(TOPIC) == 0
    await timer.close()
    await store.close()


async def check_deliveries(copy: Path, root: Path, deliver: int) -> None:
    """Open a copy of the directory with Kerolox, advance the clock, and check the delivered messages."""
    shutil.copytree(root, copy)
    clock = ManualClock(deliver)
    store, timer = await opened(configuration(copy), clock)
    work(timer)
    await clock.advance(1.0)
    work(timer)
    bodies = sorted(message.body.decode() for message in delivered(store))
    there = [f"there {number}" for number in range(SENT_BY_JAVA - 1)]
    assert bodies == sorted(there + [f"here {number}" for number in range(SENT_BY_US - 1)])
    await timer.close()
    await store.close()
