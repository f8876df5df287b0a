"""`python -m tests.golden.record_metrics`: has Java's broker at work, and keeps the names of its metrics."""

import time
import urllib.request

from kerolox.client import ConsumeFrom
from kerolox.client.errors import SendFailed
from kerolox.client.sync import Message, Producer, PushConsumer
from kerolox.errors import TopicNotFound
from tests.apache import servers
from tests.apache.processes import free_port
from tests.golden import metrics

VERSION = "5.5.0"
_PATIENCE_SECONDS = 120.0
# Counted of consumers when they have pulled, and committed.
_LAST = "rocketmq_consumer_lag_messages"


def recorded() -> dict[str, set[str]]:
    """Returns the labels of each metric of a broker that has stored, delayed and given out messages."""
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
        first = ConsumeFrom.FIRST_OFFSET
        with PushConsumer("packers", lambda _: None, topics="orders", consume_from=first, namesrv_addr=namesrv.address):
            return _told(f"http://127.0.0.1:{port}/metrics")


def _send(producer: Producer, message: Message) -> None:
    """Sends it, once the broker is known to make topics."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            producer.send(message)
            return
        except (SendFailed, TopicNotFound):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _told(url: str) -> dict[str, set[str]]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = metrics.names(answer.read().decode())
        if {_LAST, "rocketmq_messages_out_total", "rocketmq_timing_messages"} <= found.keys():
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{_LAST} was not told in time: {sorted(found)}")
        time.sleep(0.5)


if __name__ == "__main__":
    lines = [" ".join([name, *sorted(labels)]) for name, labels in sorted(recorded().items())]
    metrics.path(VERSION).write_text("\n".join(lines) + "\n")
