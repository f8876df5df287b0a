"""CPU cost of decoding records to columns: records pulled from a broker, decoded repeatedly on one core."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.spark_environment import SparkEnvironment
from bench.spark_rates import TOPIC
from kerolox.spark.arrow.batches import Origin, batches
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.read.filter_pushdown import PushedFilters
from kerolox.spark.read.queue_reader import QueueReader
from kerolox.spark.read.task import read_task
from kerolox.spark.schema import topic_schema
from kerolox.spark.source import plan_ranges

_RECORDS_MAX = 50_000


def measure(environment: SparkEnvironment, rounds: int) -> tuple[list[float], list[float]]:
    """Return CPU seconds per record of each round: to decode it to the default columns, and to pull it."""
    options = read_options({"nameServer": environment.namesrv, "subscribe": TOPIC}, is_stream=False)
    wanted = read_task(options, topic_schema()).values.wanted
    decoded, pulled = [], []
    # The first round is warm-up.
    for _ in range(rounds + 1):
        chunks, seconds = _pulled(options)
        started = time.thread_time()
        count = sum(batch.num_rows for batch in batches(chunks, wanted, origin=Origin("broker")))
        decoded.append((time.thread_time() - started) / count)
        pulled.append(seconds / count)
    return decoded[1:], pulled[1:]


def _pulled(options: ReadOptions) -> tuple[Sequence[bytes], float]:
    """Pull the first queue; return its records and the CPU seconds it took."""
    cluster = ClusterMetadata(options.connection, options.pull_group)
    part = plan_ranges(cluster, options, PushedFilters())[0]
    part = part._replace(end=min(part.end, part.start + _RECORDS_MAX))
    puller = QueueReader(options, cluster.address, cluster.addresses())
    try:
        started = time.thread_time()
        chunks = [chunk.records for chunk in puller.read(part)]
        return chunks, time.thread_time() - started
    finally:
        puller.close()
