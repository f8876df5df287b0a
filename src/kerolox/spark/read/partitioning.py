"""Splits the available messages into batches and partitions; pure functions."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from kerolox.spark.read.offset_json import QueueRange

K = TypeVar("K")

# A task costs tens of milliseconds however little it reads, so smaller ones do not pay.
RECORDS_PER_TASK_MIN: Final = 1000


def fair_shares(available: Mapping[K, int], limit: int, turn: int = 0) -> dict[K, int]:
    """Distribute `limit` over the keys, in proportion to the available counts.

    Every key with something available gets at least one, so that small queues do not starve behind large ones. If
    there are more such keys than `limit`, they take turns by `turn`.
    """
    waiting = {key: count for key, count in available.items() if count > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    if limit <= len(waiting):
        keys = list(waiting)
        first = turn % len(keys)
        return dict.fromkeys((keys[first:] + keys[:first])[:limit], 1)
    # One for each key first; the rest of the limit in proportion to the rest of the counts.
    spare, rest = limit - len(waiting), total - len(waiting)
    exact = {key: (count - 1) * spare for key, count in waiting.items()}
    shares = {key: 1 + part // rest for key, part in exact.items()}
    left = limit - sum(shares.values())
    for key in sorted(exact, key=lambda key: exact[key] % rest, reverse=True)[:left]:
        shares[key] += 1
    return shares


def shares_of_bytes(available: Mapping[K, int], sizes: Mapping[K, float], limit: int, turn: int = 0) -> dict[K, int]:
    """Distribute `limit` bytes over the keys, and return counts; `sizes` has the mean size per key.

    Keys whose share is smaller than one message take turns, so that none waits for ever.
    """
    weights = {key: max(1, round(count * sizes[key])) for key, count in available.items() if count > 0}
    if not weights:
        return {}
    shares = {
        key: min(available[key], int(share // max(sizes[key], 1)))
        for key, share in fair_shares(weights, limit, turn).items()
    }
    without_share = [key for key in weights if not shares.get(key)]
    if without_share:
        shares[without_share[turn % len(without_share)]] = 1
    return {key: count for key, count in shares.items() if count}


def parallelism() -> int:
    """Return the assumed number of concurrent tasks: the number of cores of this machine."""
    return max(2, os.cpu_count() or 2)


def partitions_of(
    ranges: Sequence[QueueRange],
    *,
    parallelism: int,
    partitions_min: int | None = None,
    records_per_partition_max: int | None = None,
) -> list[list[QueueRange]]:
    """Pack ranges into partitions of about the same size; large ranges are split.

    There are `parallelism` partitions, fewer if there is little to read, and more only if the options ask for it.
    """
    total = sum(part.length for part in ranges)
    if not total:
        return []
    count = max(partitions_min or 1, min(parallelism, -(-total // RECORDS_PER_TASK_MIN)))
    if records_per_partition_max is not None:
        count = max(count, -(-total // records_per_partition_max))
    size = max(1, -(-total // count))
    return _cut(ranges, size)


def _cut(ranges: Sequence[QueueRange], size: int) -> list[list[QueueRange]]:
    """Concatenate the ranges and cuts wherever `size` is reached."""
    partitions: list[list[QueueRange]] = []
    room = 0
    for part in ranges:
        start = part.start
        while start < part.end:
            if not room:
                partitions.append([])
                room = size
            end = min(part.end, start + room)
            partitions[-1].append(part._replace(start=start, end=end))
            room -= end - start
            start = end
    return partitions
