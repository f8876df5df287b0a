"""Creates stream readers, and plans and reads batches, as Spark does."""

import json
import pickle
from typing import Any

from kerolox.spark.options import read_options
from kerolox.spark.read.task import ReadTask, read_task
from kerolox.spark.schema import topic_schema
from tests.spark.clusters import Brokers


def read_task_for(cluster: Brokers, topic: str, **options: Any) -> ReadTask:
    given = {"nameServer": cluster.namesrv_addr, "subscribe": topic, "startingOffsets": "earliest"}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    known = {name: text for name, text in (given | texts).items() if text}
    return read_task(read_options(known, is_stream=True), topic_schema())


def through_json(value: Any) -> Any:
    """Return an offset as Spark passes it back: serialised and parsed."""
    return json.loads(json.dumps(value))


def read_bodies(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    """Read a batch like tasks, each with a pickled copy of the reader."""
    found = []
    for partition in reader.partitions(through_json(start), through_json(end)):
        copy, partition = pickle.loads(pickle.dumps((reader, partition)))
        for batch in copy.read(partition):
            found += batch.column("body").to_pylist()
    return found
