"""Decoding a registration in pieces, and the next one only where it differs."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kerolox.runtime.cooperative import run_at_once
from kerolox.wire.bodies.registration import RegisterBrokerBody
from kerolox.wire.bodies.topic_pieces import TopicPieces, decode_changes, decoding_pieces

NAMES = [f"topic-{number}" for number in range(300)]


def config(name: str, queues: int = 8) -> dict[str, Any]:
    return {"attributes": {}, "order": False, "perm": 6, "readQueueNums": queues, "topicName": name}


def table(**changed: int) -> dict[str, Any]:
    return {name: config(name, changed.get(name.replace("-", "_"), 8)) for name in NAMES}


def body(topics: dict[str, Any] | None = None, counter: int = 1, **others: Any) -> bytes:
    wrapper = {"dataVersion": {"counter": counter}, "topicConfigTable": topics or table(), **others}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":")).encode()


def pieces(data: bytes) -> TopicPieces:
    decoded = run_at_once(decoding_pieces(data))
    assert decoded is not None
    assert decoded.pieces is not None
    assert decoded.body == RegisterBrokerBody.decode(data)
    assert list(topics_of(decoded.body)) == list(topics_of(RegisterBrokerBody.decode(data)))
    return decoded.pieces


def topics_of(registration: RegisterBrokerBody) -> dict[str, Any]:
    return dict(registration.topic_config_serialize_wrapper.topic_config_table)


def changes(data: bytes, previous: bytes | None = None) -> dict[str, Any]:
    """Return the topics that were decoded."""
    decoded = decode_changes(data, pieces(previous or body()), NAMES)
    assert decoded is not None
    assert decoded.pieces is not None
    whole = RegisterBrokerBody.decode(data)
    found = topics_of(decoded.body)
    assert found.items() <= topics_of(whole).items()
    decoded.body.topic_config_serialize_wrapper.topic_config_table = {}
    whole.topic_config_serialize_wrapper.topic_config_table = {}
    assert decoded.body == whole
    return found


def test_pieces_are_complete_entries_of_most_of_the_table() -> None:
    kept = pieces(body())

    names = [name for piece in kept.pieces for name in json.loads(b"{%b}" % piece[:-1])]
    assert names + sorted(kept.other_names, key=NAMES.index) == NAMES
    assert 10 < len(kept.pieces) < 50


@pytest.mark.parametrize(
    "topics",
    [
        table(),
        table(topic_0=9),
        table(topic_150=9),
        table(topic_299=9),
        table(topic_1=9, topic_151=9),
        {"new": config("new")} | table(),
        table() | {"new": config("new")},
        {name: config(name) for name in [*NAMES[:150], "new", *NAMES[150:]]},
        {name: config(name) for name in NAMES if name not in ("topic-0", "topic-150", "topic-299")},
        {name: config(name) for name in NAMES[50:]},
        {name: config(name) for name in NAMES[:250]},
    ],
)
def test_the_topics_that_differ_are_decoded_and_few_others(topics: dict[str, Any]) -> None:
    found = changes(body(topics, counter=2))

    assert {name for name, changed in topics.items() if changed != table().get(name)} <= found.keys()
    assert len(found) < 80


def test_pieces_of_a_changed_registration_serve_the_next_one() -> None:
    kept, topics = pieces(body()), table()
    for number in range(100):
        topics |= {f"new-{number}": config(f"new-{number}"), f"topic-{number}": config(f"topic-{number}", 9)}
        data = body(topics, counter=number)
        decoded = decode_changes(data, kept, list(topics)[:-1])
        assert decoded is not None
        assert decoded.pieces is not None
        kept = decoded.pieces
        assert b"".join(kept.pieces) in data
        assert len(topics_of(decoded.body)) < 80


def test_a_registration_is_decoded_as_a_whole_when_its_pieces_have_become_many() -> None:
    kept = pieces(body())
    place, names = len(json.loads(b"{%b}" % kept.pieces[0][:-1])), NAMES
    for number in range(100):
        names = [*names[:place], f"new-{number}", *names[place:]]
        decoded = decode_changes(body({name: config(name) for name in names}), kept, names[:place] + names[place + 1 :])
        if decoded is None:
            break
        assert decoded.pieces is not None
        kept = decoded.pieces

    assert 10 < number < 50
    assert len(pieces(body({name: config(name) for name in names})).pieces) < 20


IRREGULAR: dict[str, Callable[[], bytes]] = {
    "without a table": lambda: b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1}}}',
    "formatted differently": lambda: json.dumps(json.loads(body())).encode(),
    "a name twice": lambda: body().replace(b'"topic-200":{', b'"topic-100":{').replace(b'"topic-200"', b'"topic-100"'),
    "a key other than the name": lambda: body(table() | {"key": config("topic-100")}),
    "a reference": lambda: body(mappingDataVersion={"$ref": "$.topicConfigSerializeWrapper.dataVersion"}),
    "a second table": lambda: body().replace(b"}}}}", b'}},"topicConfigTable":{"x":{"topicName":"x"}}}}'),
    "a table in another member": lambda: b'{"x":{"topicConfigTable":%b}}' % json.dumps(table()).encode(),
    "a table in another member before": lambda: body().replace(
        b'"dataVersion"', b'"x":{"topicConfigTable":%b},"dataVersion"' % json.dumps(table(topic_9=9)).encode()
    ),
    "much outside the table": lambda: body(x="x" * 100_000),
    "cut off": lambda: body()[:-1],
    "invalid in a topic": lambda: body().replace(b'"topicName":"topic-150"', b'"topicName":150'),
    "a comma after the last entry": lambda: body().replace(b"}}}}", b"},}}}"),
}


@pytest.mark.parametrize("what", IRREGULAR)
def test_an_irregular_registration_is_not_decoded_in_pieces(what: str) -> None:
    data = IRREGULAR[what]()

    assert run_at_once(decoding_pieces(data)) is None
    assert decode_changes(data, pieces(body()), NAMES) is None


def test_a_topic_that_is_also_in_an_unchanged_piece_is_found() -> None:
    """The last entry with a name counts, and that may be the unchanged one."""
    data = body().replace(b'"topic-0":{', b'"topic-200":{', 1).replace(b'"topic-0"', b'"topic-200"', 1)

    assert decode_changes(data, pieces(body()), NAMES) is None


def test_a_registration_with_many_changes_is_decoded_as_a_whole() -> None:
    many = [f"topic-{number}" for number in range(3000)]
    previous = pieces(body({name: config(name) for name in many}))

    assert decode_changes(body({name: config(name, 9) for name in many}), previous, many) is None


def test_pieces_of_topics_with_long_texts_are_not_kept() -> None:
    data = body({name: config(name) | {"x": "x" * 2000} for name in NAMES})

    assert run_at_once(decoding_pieces(data)) is None
