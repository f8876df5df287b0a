"""Rings of sends: ordinary traffic, and sends with keys to one topic."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.compiled import KEY_COUNTER
from bench.frames import OPAQUE_FIRST
from bench.messages import keyed_sends
from bench.ordinary import Traffic, sends, tag_name
from kerolox.wire.command import BINARY, JSON, Command
from kerolox.wire.headers.messages import SendMessageV2
from tests.bench.rings import commands

TRAFFIC = Traffic()
TOPICS = TRAFFIC.topic_names


def header(command: Command) -> SendMessageV2:
    return SendMessageV2.decode(command.ext)


def properties(command: Command) -> dict[str, str]:
    pairs = (header(command).properties or "").split("\x02")
    return dict(pair.split("\x01") for pair in pairs if pair)


def test_the_same_seed_gives_the_same_frames_and_another_seed_others() -> None:
    ring = sends(TRAFFIC, 1, count=100)

    assert ring == sends(TRAFFIC, 1, count=100)
    frames, others = ({ring.slice(index, 1) for index in range(100)} for ring in (ring, sends(TRAFFIC, 2, count=100)))
    assert not frames & others


def test_every_frame_is_a_send_to_the_topic_that_was_chosen() -> None:
    found = commands(sends(TRAFFIC, 3, count=500))

    assert [command.opaque for command in found] == list(range(OPAQUE_FIRST, OPAQUE_FIRST + 500))
    assert {command.code for command in found} == {310}
    counted = Counter(header(command).topic for command in found)
    assert set(counted) <= set(TOPICS)
    assert counted[TOPICS[0]] == max(counted.values())


def test_messages_have_as_many_tags_as_asked_for() -> None:
    found = commands(Traffic(tags=30).ring(0))

    tags = Counter(properties(command).get("TAGS") for command in found)
    assert set(tags) == {None, *(tag_name(number) for number in range(30))}


def test_messages_of_a_ring_have_little_in_common() -> None:
    found = commands(sends(TRAFFIC, 4, count=500))

    assert {command.serialization for command in found} == {JSON, BINARY}
    assert len({command.version for command in found}) > 1
    assert len({len(command.body) for command in found}) > 100
    assert {header(command).producer_group for command in found} == {f"producers-{number}" for number in range(8)}
    assert {header(command).queue_id for command in found} == set(range(8))
    assert {"KEYS" in properties(command) for command in found} == {True, False}
    assert {"TAGS" in properties(command) for command in found} == {True, False}
    assert all(properties(command)["UNIQ_KEY"].endswith(KEY_COUNTER.decode()) for command in found)


@pytest.mark.parametrize(("topics", "groups"), [(1, 8), (4, 64), (32, 1)])
def test_traffic_has_as_many_topics_and_groups_as_asked_for(topics: int, groups: int) -> None:
    headers = [header(command) for command in commands(Traffic(topics, groups).ring(0))]

    assert {sent.topic for sent in headers} == set(TOPICS[:topics])
    assert len({sent.producer_group for sent in headers}) == groups


def test_even_traffic_over_125_topics_reaches_1000_queues_equally_often_in_random_order() -> None:
    traffic = Traffic(topics=125, is_even=True)

    queues = [(sent.topic, sent.queue_id) for sent in map(header, commands(traffic.ring(0)))]

    assert traffic.queues == len(set(queues)) == 1000
    assert set(Counter(queues).values()) == {4, 5}
    assert queues[:1000] != sorted(queues[:1000])


def test_warm_up_and_rounds_have_other_messages() -> None:
    rings = [Traffic(1).ring(number) for number in (-1, 0, 1)]

    assert len({ring.stream for ring in rings}) == 3


def test_keyed_sends_differ_in_keys_and_tags_but_not_in_size() -> None:
    ring = keyed_sends("orders", 300, count=100)
    found = commands(ring)

    assert len({len(ring.slice(index, 1)) for index in range(100)}) == 1
    assert {(header(command).topic, len(command.body)) for command in found} == {("orders", 300)}
    assert len({properties(command)["KEYS"] for command in found}) == 100
    assert len({properties(command)["TAGS"] for command in found}) == 5
    # Java keeps properties in a HashMap, whose order depends on the hashes of the names.
    assert list(properties(found[0])) == ["KEYS", "UNIQ_KEY", "WAIT", "TAGS"]
