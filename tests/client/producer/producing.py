"""Producers for tests, and the messages that brokers have stored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from kerolox.broker import Broker
from kerolox.client.producer.producer import Producer
from kerolox.message.message import Message as Record
from kerolox.message.records.record import decode_all
from kerolox.testing import Cluster


class HasNameServer(Protocol):
    @property
    def namesrv_addr(self) -> str: ...


def stored(broker: Broker, topic: str) -> list[Record]:
    """Return all messages of a topic on a broker, queue by queue."""
    found: list[Record] = []
    config = broker.topics.get(topic)
    for queue_id in range(config.write_queue_nums if config is not None else 0):
        queue = broker.store.queues.get(topic, queue_id)
        offset = 0
        while queue is not None and offset < queue.max_offset:
            records = decode_all(b"".join(broker.store.reader.get(topic, queue_id, offset).records))
            found += records
            offset += len(records)
    return found


def stored_bodies(cluster: Cluster, topic: str) -> list[bytes]:
    return sorted(record.body for broker in cluster.brokers for record in stored(broker, topic))


@asynccontextmanager
async def producing(cluster: HasNameServer, group: str = "shop", **keywords: object) -> AsyncIterator[Producer]:
    given = {"namesrv_addr": cluster.namesrv_addr, "client_ip": "127.0.0.1", **keywords}
    async with Producer(group, **given) as producer:  # type: ignore[arg-type]
        yield producer
