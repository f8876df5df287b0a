"""Hashes the index keys of many records at once, in index order: unique key, keys, tag."""

from itertools import chain, islice, repeat
from operator import sub

from kerolox.message.records.columns import Columns
from kerolox.message.tags import key_hashes


def hashes_by_position(run: Columns, tag_hashes: list[int]) -> list[list[int]] | None:
    """Return the hashes of all first keys, all second keys and so on; None if records differ in number of keys."""
    topics, none_or_all = run.topics, (0, len(run))
    if any(column.count(b"") not in none_or_all for column in (run.unique_keys, run.keys, run.tags)):
        return None
    found: list[list[int]] = []
    if run.unique_keys[0]:
        found.append(key_hashes(topics, run.unique_keys))
    if run.keys[0]:
        texts = b" ".join(run.keys).split(b" ")
        counts = {keys.count(b" ") for keys in run.keys}
        step = counts.pop() + 1
        # With more keys per record than records the columns are too short to be faster.
        if counts or step > len(run) or b"" in texts:
            return None
        found += [key_hashes(topics, texts[at::step]) for at in range(step)]
    if run.tags[0]:
        found.append(tag_hashes)
    return found


def hashes_by_record(run: Columns, tag_hashes: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return hash, physical offset and store timestamp of each key, record by record."""
    topics = run.topics
    lists = [[key for key in keys.split(b" ") if key] if keys else [] for keys in run.keys]
    counts = list(map(len, lists))
    hashed = iter(key_hashes(list(chain.from_iterable(map(repeat, topics, counts))), list(chain.from_iterable(lists))))
    unique_hashes = key_hashes(topics, run.unique_keys)
    hashes: list[int] = []
    ends: list[int] = []
    for unique_key, unique_hash, count, tag, tag_hash in zip(
        run.unique_keys, unique_hashes, counts, run.tags, tag_hashes, strict=True
    ):
        if unique_key:
            hashes.append(unique_hash)
        if count:
            hashes += islice(hashed, count)
        if tag:
            hashes.append(tag_hash)
        ends.append(len(hashes))
    totals = list(map(sub, ends, [0, *ends[:-1]]))
    offsets = list(chain.from_iterable(map(repeat, run.physical_offsets, totals)))
    return hashes, offsets, list(chain.from_iterable(map(repeat, run.store_timestamps, totals)))
