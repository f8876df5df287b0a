"""Requests of brokers and clients to a NameServer as encoded frames."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from bench.frames import OPAQUE_FIRST, Ring, encode, ring

QUEUES = 8
CLUSTER = "BenchCluster"
_TIMESTAMP = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Broker:
    """A master and its topics, as registered with a NameServer."""

    name: str
    address: str
    topics: tuple[str, ...]

    @property
    def fields(self) -> dict[str, str]:
        return {"brokerAddr": self.address, "brokerId": "0", "brokerName": self.name, "clusterName": CLUSTER}

    def registration(self, counter: int = 1, opaque: int = OPAQUE_FIRST) -> bytes:
        """REGISTER_BROKER as a 5.x broker sends it: not compressed, with a checksum."""
        body = _json(
            {
                "filterServerList": [],
                "topicConfigSerializeWrapper": {
                    "dataVersion": data_version(counter),
                    "mappingDataVersion": data_version(0),
                    "topicConfigTable": {topic: _topic_config(topic) for topic in self.topics},
                    "topicQueueMappingDetailMap": {},
                    "topicQueueMappingInfoMap": {},
                },
            }
        )
        fields = {
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            **self.fields,
            "compressed": "false",
            "enableActingMaster": "false",
            "haServerAddr": self.address,
        }
        return encode(103, fields, body, opaque=opaque)

    def version_query(self, counter: int = 1, opaque: int = OPAQUE_FIRST) -> bytes:
        """QUERY_DATA_VERSION, which also counts as a heartbeat."""
        return encode(322, self.fields, _json(data_version(counter)), opaque=opaque)

    def heartbeat(self, opaque: int = OPAQUE_FIRST) -> bytes:
        """BROKER_HEARTBEAT (5.x only); not oneway here, so that responses can be counted."""
        return encode(904, self.fields, opaque=opaque)


def broker(index: int, topic_count: int, prefix: str = "bench") -> Broker:
    """Return broker number `index`. Each broker has its own topics; all names have the same length."""
    name = f"{prefix}-{index:03d}"
    topics = tuple(f"{name}-topic-{topic:04d}" for topic in range(topic_count))
    return Broker(name, f"10.0.{index}.1:10911", topics)


def route_queries(topics: Sequence[str]) -> Ring:
    """GET_ROUTEINFO_BY_TOPIC of each topic in turn."""
    return ring(len(topics), lambda index, opaque: encode(105, {"topic": topics[index]}, opaque=opaque))


def registrations(sender: Broker, count: int, *, is_changing: bool) -> Ring:
    """REGISTER_BROKER of one broker; with `is_changing`, each has a new DataVersion."""
    counters = [10_000 + index if is_changing else 10_000 for index in range(count)]
    return ring(count, lambda index, opaque: sender.registration(counters[index], opaque))


def version_queries(sender: Broker, count: int) -> Ring:
    return ring(count, lambda _, opaque: sender.version_query(opaque=opaque))


def heartbeats(sender: Broker, count: int) -> Ring:
    return ring(count, lambda _, opaque: sender.heartbeat(opaque))


def data_version(counter: int) -> dict[str, int]:
    return {"counter": counter, "stateVersion": 0, "timestamp": _TIMESTAMP}


def _topic_config(topic: str) -> dict[str, object]:
    return {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": QUEUES,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": QUEUES,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
