"""What it costs to make columns of records: those that a broker gives, decoded again and again by one core."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.spark_rates import TOPIC
from bench.spark_stage import Stage
from kerolox.spark.cluster import Cluster
from kerolox.spark.decoding import Origin, batches
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.pulling import Puller
from kerolox.spark.pushing import Narrowing
from kerolox.spark.schema import columns
from kerolox.spark.source import planned
from kerolox.spark.tasks import reading_of

_RECORDS_MAX = 50_000


def measure(stage: Stage, rounds: int) -> tuple[list[float], list[float]]:
    """Returns CPU seconds for a record in each round: to decode it to the default columns, and to pull it."""
    options = read_options({"nameServer": stage.namesrv, "subscribe": TOPIC}, is_stream=False)
    wanted = reading_of(options, columns()).values.wanted
    decoded, pulled = [], []
    # The first is for what is imported and made once.
    for _ in range(rounds + 1):
        chunks, seconds = _pulled(options)
        started = time.thread_time()
        count = sum(batch.num_rows for batch in batches(chunks, wanted, origin=Origin("broker")))
        decoded.append((time.thread_time() - started) / count)
        pulled.append(seconds / count)
    return decoded[1:], pulled[1:]


def _pulled(options: ReadOptions) -> tuple[Sequence[bytes], float]:
    """Returns what the first queue gives, and the CPU seconds that went into receiving it."""
    cluster = Cluster(options.connect, options.pull_group)
    part = planned(cluster, options, Narrowing())[0]
    part = part._replace(end=min(part.end, part.start + _RECORDS_MAX))
    puller = Puller(options, cluster.address, cluster.addresses())
    try:
        started = time.thread_time()
        chunks = [chunk.records for chunk in puller.read(part)]
        return chunks, time.thread_time() - started
    finally:
        puller.close()
