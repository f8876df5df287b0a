"""`python -m tests.golden.record_metrics`: has Java's broker at work, and keeps the names of its metrics."""

import asyncio
import time
import urllib.request

from kerolox.admin import AdminClient
from kerolox.client import ConsumeFrom
from kerolox.client.errors import SendFailed
from kerolox.client.sync import Decision, Message, Producer, PushConsumer, SimpleConsumer, TransactionProducer
from kerolox.errors import TopicNotFound
from tests.apache import servers
from tests.apache.processes import free_port
from tests.golden import metrics

VERSION = "5.5.0"
_PATIENCE_SECONDS = 120.0
# What is told last: when consumers have pulled and committed, timers were delivered, and what was popped came again.
_LAST = {
    "rocketmq_consumer_lag_messages",
    "rocketmq_messages_out_total",
    "rocketmq_timing_messages",
    "rocketmq_timer_dequeue_total",
    "rocketmq_pop_revive_retry_messages_total",
    "rocketmq_rollback_messages_total",
}


def recorded() -> dict[str, set[str]]:
    """Return the labels of each metric of a broker that has done a little of everything that it counts."""
    port = free_port()
    settings = {
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": str(port),
        "metricsPromExporterHost": "127.0.0.1",
        "timerWheelEnable": "true",
    }
    with (
        servers.name_server(VERSION) as namesrv,
        servers.broker(VERSION, namesrv.address, properties=settings),
        Producer("shop", namesrv_addr=namesrv.address, send_timeout_seconds=30) as producer,
    ):
        _send(producer, Message("orders", b"now"))
        _send(producer, Message("orders", b"later", delay_seconds=60))
        _send(producer, Message("orders", b"soon", delay_seconds=2))
        asyncio.run(_make(namesrv.address))
        _decide(namesrv.address)
        _pop(namesrv.address)
        first = ConsumeFrom.FIRST_OFFSET
        with PushConsumer("packers", lambda _: None, topics="orders", consume_from=first, namesrv_addr=namesrv.address):
            return _told(f"http://127.0.0.1:{port}/metrics")


def _send(producer: Producer, message: Message) -> None:
    """Send it, once the broker is known to make topics."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            producer.send(message)
            return
        except (SendFailed, TopicNotFound):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


async def _make(namesrv: str) -> None:
    async with AdminClient(namesrv_addr=namesrv, timeout_seconds=30) as admin:
        await admin.topics.create("made")
        await admin.groups.create("made")


def _decide(namesrv: str) -> None:
    with TransactionProducer(
        "banks", lambda _: Decision.COMMIT, namesrv_addr=namesrv, send_timeout_seconds=30
    ) as producer:
        for decide in (lambda _: Decision.COMMIT, lambda _: Decision.ROLLBACK):
            producer.send_in_transaction(Message("made", b"half"), decide)


def _pop(namesrv: str) -> None:
    """Pop a message and has it come again."""
    first = ConsumeFrom.FIRST_OFFSET
    with SimpleConsumer("poppers", topics="orders", consume_from=first, namesrv_addr=namesrv) as simple:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (taken := simple.receive(invisible_seconds=10, wait_seconds=5)):
            if time.monotonic() > deadline:
                raise TimeoutError("nothing was popped in time")
        simple.ack(*taken[1:])
        simple.change_invisible(taken[0], 10)


def _told(url: str) -> dict[str, set[str]]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = metrics.names(answer.read().decode())
        if found.keys() >= _LAST:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{_LAST - found.keys()} was not told in time: {sorted(found)}")
        time.sleep(0.5)


if __name__ == "__main__":
    lines = [" ".join([name, *sorted(labels)]) for name, labels in sorted(recorded().items())]
    metrics.path(VERSION).write_text("\n".join(lines) + "\n")
