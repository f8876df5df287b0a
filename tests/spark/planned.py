"""Readers as Spark makes them, and batches that are planned and read as Spark does."""

import json
import pickle
from typing import Any

from kerolox.spark.options import read_options
from kerolox.spark.schema import columns
from kerolox.spark.tasks import Reading, reading_of
from tests.spark.clusters import Brokers


def reading_from(cluster: Brokers, topic: str, **options: Any) -> Reading:
    given = {"nameServer": cluster.namesrv_addr, "subscribe": topic, "startingOffsets": "earliest"}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    known = {name: text for name, text in (given | texts).items() if text}
    return reading_of(read_options(known, is_stream=True), columns())


def handed_back(value: Any) -> Any:
    """Returns a place as Spark hands it back."""
    return json.loads(json.dumps(value))


def bodies_of(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    """Reads a batch as tasks do, each with a copy of the reader."""
    found = []
    for partition in reader.partitions(handed_back(start), handed_back(end)):
        copy, partition = pickle.loads(pickle.dumps((reader, partition)))
        for batch in copy.read(partition):
            found += batch.column("body").to_pylist()
    return found
