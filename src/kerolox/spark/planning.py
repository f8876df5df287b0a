"""How much of what is there to read, and who reads which part of it: pure functions."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from kerolox.spark.offsets import QueueRange

K = TypeVar("K")

# Less than this is not worth a task of its own, which costs tens of milliseconds whatever it reads.
RECORDS_PER_TASK_MIN: Final = 1000


def fair_shares(available: Mapping[K, int], limit: int, turn: int = 0) -> dict[K, int]:
    """Returns how much of each is taken if at most `limit` may be: in proportion to what there is, and all of it.

    As long as there are no more of them than `limit`, each that has something gives something, so that a small one
    does not wait until the large ones are empty. If there are more, they take turns by `turn`.
    """
    waiting = {key: count for key, count in available.items() if count > 0}
    total = sum(waiting.values())
    if total <= limit:
        return waiting
    if limit <= len(waiting):
        keys = list(waiting)
        first = turn % len(keys)
        return dict.fromkeys((keys[first:] + keys[:first])[:limit], 1)
    # One each first; the rest of the limit is split in proportion to the rest of what there is.
    spare, rest = limit - len(waiting), total - len(waiting)
    exact = {key: (count - 1) * spare for key, count in waiting.items()}
    shares = {key: 1 + part // rest for key, part in exact.items()}
    left = limit - sum(shares.values())
    for key in sorted(exact, key=lambda key: exact[key] % rest, reverse=True)[:left]:
        shares[key] += 1
    return shares


def shares_of_bytes(available: Mapping[K, int], sizes: Mapping[K, float], limit: int, turn: int = 0) -> dict[K, int]:
    """Returns how many of each are taken if they may have `limit` bytes together, given the size of one of each.

    Where a message is larger than its share, they take turns: it must be read some day.
    """
    weights = {key: max(1, round(count * sizes[key])) for key, count in available.items() if count > 0}
    if not weights:
        return {}
    shares = {
        key: min(available[key], int(share // max(sizes[key], 1)))
        for key, share in fair_shares(weights, limit, turn).items()
    }
    passed_over = [key for key in weights if not shares.get(key)]
    if passed_over:
        shares[passed_over[turn % len(passed_over)]] = 1
    return {key: count for key, count in shares.items() if count}


def parallelism() -> int:
    """Returns how many tasks are taken to run at the same time: as many as this machine has cores."""
    return max(2, os.cpu_count() or 2)


def partitions_of(
    ranges: Sequence[QueueRange],
    *,
    parallelism: int,
    partitions_min: int | None = None,
    records_per_partition_max: int | None = None,
) -> list[list[QueueRange]]:
    """Returns the ranges packed into partitions of about the same size, large ones split.

    There are as many as can run at the same time, fewer if there is little to read, and more only if it was asked for.
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
    """Returns the ranges laid end to end, and cut wherever `size` is reached."""
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
