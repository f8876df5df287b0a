"""fastjson's encoding, and the parser of its dialect."""

import json
from enum import IntFlag
from typing import Any

import msgspec
import pytest

from kerolox.errors import ProtocolError
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.body import Body


class Inner(Body):
    broker_name: str
    addresses: dict[int, str] = {}


class Sample(Body):
    zebra: int = 0
    apple: str | None = None
    inner: Inner | None = None
    names: list[str] = []
    ratio: float = 0.5
    is_on: bool = False


class Place(msgspec.Struct, frozen=True, rename="camel"):
    queue_id: int


class Places(Body):
    by_place: dict[Place, int] | None = None
    nested: list[dict[str, dict[Place, Inner]]] = []


class Flag(IntFlag):
    READ = 4
    WRITE = 2


# Writing


def test_members_are_sorted_and_nulls_are_omitted() -> None:
    assert Sample(zebra=1, names=["b", "a"]).encode() == b'{"isOn":false,"names":["b","a"],"ratio":0.5,"zebra":1}'


def test_no_white_space_is_written_between_tokens() -> None:
    """Go's client splits addresses at the comma and at the first colon."""
    assert b" " not in Sample(inner=Inner("b", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})).encode()


def test_integer_keys_are_unquoted_unless_standard_json_is_requested() -> None:
    inner = Inner("b", {1: "y", 0: "x"})

    assert inner.encode() == b'{"addresses":{1:"y",0:"x"},"brokerName":"b"}'
    assert inner.encode(strict=True) == b'{"addresses":{"0":"x","1":"y"},"brokerName":"b"}'


def test_strict_sorts_maps_and_the_dialect_keeps_their_order() -> None:
    assert fastjson.encode({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert fastjson.encode({"b": 1, "a": 2}, strict=True) == b'{"a":2,"b":1}'


def test_an_object_may_be_a_key() -> None:
    class Key(msgspec.Struct, frozen=True, rename="camel"):
        queue_id: int
        broker_name: str

    assert fastjson.encode({Key(0, "b"): 1}) == b'{{"brokerName":"b","queueId":0}:1}'


def test_a_flag_is_a_number() -> None:
    assert fastjson.encode([Flag.READ, Flag.READ | Flag.WRITE, Flag(0)]) == b"[4,6,0]"
    assert fastjson.encode({"perm": Flag.READ}) == b'{"perm":4}'


def test_a_null_is_written_in_a_list_but_not_in_a_map() -> None:
    assert fastjson.encode([None, True, False]) == b"[null,true,false]"
    assert fastjson.encode({"a": None, "b": 1, "c": None}) == b'{"b":1}'


def test_strings_are_escaped_like_fastjson_escapes_them() -> None:
    assert fastjson.encode("ü€/<\\\"'>\n\x01") == '"ü€/<\\\\\\"\'>\\n\\u0001"'.encode()


def test_sets_and_tuples_are_arrays() -> None:
    assert fastjson.encode([(1, 2), {3}]) == b"[[1,2],[3]]"


# Reading


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ("{-1:1}", {"-1": 1}),
        ("{name:1,$x_y.z-w:2}", {"name": 1, "$x_y.z-w": 2}),
        ("{true:1,null:2}", {"true": 1, "null": 2}),
        ("{'a':'b'}", {"a": "b"}),
        (r"""'it\'s "so"\n\\'""", 'it\'s "so"\n\\'),
        (r'"\u00e9\ud83d\ude00\/"', "é😀/"),
        ('"a\tb\nc"', "a\tb\nc"),
        ("[1,,2,]", [1, 2]),
        ('{,"a":1,,"b":2,}', {"a": 1, "b": 2}),
        ('{"a":1},', {"a": 1}),
        (" \t\r\n[ ] ", []),
        ("[true,false,null]", [True, False, None]),
        ("[1,-2,3.5,1e3,-1.5E-2]", [1, -2, 3.5, 1000.0, -0.015]),
        ('{{"b":"x","q":0}:{"m":1}}', {'{"b":"x","q":0}': {"m": 1}}),
        ("{[1,2]:3}", {"[1,2]": 3}),
        ("{}", {}),
        ('"text"', "text"),
        ("7", 7),
    ],
)
def test_the_dialect_is_parsed(text: str, value: Any) -> None:
    assert fastjson.parse(text.encode()) == value


def test_an_object_as_a_key_is_normalised() -> None:
    spaced = fastjson.parse(b'{{ "b" : "x" , q : 0 }:1}')

    assert spaced == fastjson.parse(b'{{"b":"x","q":0}:1}')


def test_nan_is_accepted() -> None:
    (value,) = fastjson.parse(b"[NaN]")

    assert value != value


def test_the_last_of_two_members_with_the_same_name_wins() -> None:
    assert fastjson.parse(b"{a:1,a:2}") == {"a": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{"x":1},"b":{"$ref":"$.a"}}', {"a": {"x": 1}, "b": {"x": 1}}),
        ('{"a":[1,{"x":2}],"b":{"$ref":"$.a[1]"}}', {"a": [1, {"x": 2}], "b": {"x": 2}}),
        ('{"a\\\\.b":1}', {"a\\.b": 1}),
        ('{"t":{"a.b":[1]},"b":{"$ref":"$.t.a\\\\.b"}}', {"t": {"a.b": [1]}, "b": [1]}),
        ('{"a":{"x":{"$ref":"$.c"}},"b":{"$ref":"$.a"},"c":[7]}', {"a": {"x": [7]}, "b": {"x": [7]}, "c": [7]}),
        ('{"a":{"$ref":"$.nowhere"},"b":{"$ref":".."}}', {"a": None, "b": None}),
        ('{"a":[1],"b":{"$ref":"$.a[9]"}}', {"a": [1], "b": None}),
        ('{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}', {"a": None, "b": None}),
        ('{"a":{"$ref":1}}', {"a": {"$ref": 1}}),
        ('{"a":{"$ref":"$","b":1}}', {"a": {"$ref": "$", "b": 1}}),
    ],
)
def test_a_reference_is_replaced_by_its_target(text: str, value: Any) -> None:
    assert fastjson.parse(text.encode()) == value


def test_a_circular_reference_is_cut_off() -> None:
    found = fastjson.parse(b'{"a":{"$ref":"$"}}')

    assert len(str(found)) < 1000


def test_exponential_expansion_of_references_is_refused() -> None:
    """Thirty of these lists would expand to a billion values."""
    doubled = ",".join(f'[{{"$ref":"$[{line}]"}},{{"$ref":"$[{line}]"}}]' for line in range(30))

    with pytest.raises(ProtocolError, match="references expand to more than 10000 values"):
        fastjson.parse(f"[[1,1],{doubled}]".encode())


def test_circular_references_count_towards_the_limit() -> None:
    """Each of these references expands to all of them, at every depth."""
    with pytest.raises(ProtocolError, match="references expand to more than 10000 values"):
        fastjson.parse(b"[" + b",".join([b'{"$ref":"$"}'] * 100) + b"]")


def test_bounds_limit_size_values_and_size_of_dialect_documents() -> None:
    bounds = fastjson.Bounds(size_max=40, values_max=4, dialect_size_max=20)

    assert fastjson.decode(b"[1,2,3,4]", list[int], bounds) == [1, 2, 3, 4]
    assert fastjson.decode(b"['1' 2 3]", list[int], bounds) == [1, 2, 3]
    with pytest.raises(ProtocolError, match="list of 5 values exceeds the limit of 4"):
        fastjson.decode(b"[1,2,3,4,5]", list[int], bounds)
    with pytest.raises(ProtocolError, match="list of 41 bytes exceeds the limit of 40"):
        fastjson.decode(b"[1]".ljust(41), list[int], bounds)
    with pytest.raises(ProtocolError, match="document of 21 bytes is not standard JSON, and exceeds the limit of 20 "):
        fastjson.decode(b"['1']".ljust(21), list[int], bounds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[",
        "{a",
        "{a:",
        "{a:}",
        "{a:1",
        "[1",
        "}",
        "{]",
        "[}",
        ":",
        "{a::1}",
        '{"a" 1}',
        "{a:1}}",
        "[1] 2",
        '"',
        "'",
        '"\\"',
        '"\\x"',
        '"\\u12"',
        '"\\ud800"',
        "'\\udc00x'",
        "nil",
        "[maybe]",
        "01x",
        "1.",
        "1.2.3",
        "00",
        "-01",
        "+1",
        "٣",
        "-",
        "\x00",
        "/* no */ 1",
    ],
)
def test_invalid_json_is_a_protocol_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        fastjson.parse(text.encode())


def test_bytes_that_are_not_utf8_are_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="not UTF-8"):
        fastjson.parse(b'{a:"\xff"}')


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a:", "}"), ("{{}:", "}")])
def test_nesting_depth_is_limited(opening: str, closing: str) -> None:
    """Each level of nesting is a recursive call."""
    deep = fastjson.DEPTH_MAX

    fastjson.parse((opening * deep + "1" + closing * deep).encode())
    with pytest.raises(ProtocolError, match="nested deeper than 64"):
        fastjson.parse((opening * (deep + 1) + "1" + closing * (deep + 1)).encode())


def test_an_object_key_inside_an_object_key_is_refused() -> None:
    """A pair of quotes quoted forty times needs a terabyte of backslashes."""
    with pytest.raises(ProtocolError, match="object as a key inside of a key"):
        fastjson.parse(b"{" * 40 + b":1}" * 40)
    with pytest.raises(ProtocolError, match="object as a key inside of a key"):
        fastjson.parse(b"{[{{a:1}:2}]:3}")


def test_several_keys_may_be_objects() -> None:
    assert fastjson.parse(b"{{a:1}:{{b:2}:3},{c:4}:5}") == {'{"a":1}': {'{"b":2}': 3}, '{"c":4}': 5}


def test_only_dialect_documents_are_limited_in_size_by_default() -> None:
    names = ",".join(['"a name that takes its place"'] * 50_000)

    assert len(fastjson.decode(f'{{"names":[{names}]}}'.encode(), Sample).names) == 50_000
    with pytest.raises(ProtocolError, match="exceeds the limit of 262144 for fastjson's"):
        fastjson.decode(f"{{names:[{names}]}}".encode(), Sample)


@pytest.mark.parametrize("size", [400, 100_000])
def test_a_number_with_many_digits_is_parsed_fast(size: int) -> None:
    assert fastjson.parse(b"[" + b"9" * size + b"]") == [float("inf")]


@pytest.mark.parametrize(
    "text",
    [
        '{"inner":{"addresses":{"0":"x","1":"y"},"brokerName":"b"},"zebra":1}',
        '{"inner":{"addresses":{0:"x",1:"y"},"brokerName":"b"},"zebra":1}',
        "{inner:{addresses:{0:'x',1:'y'},brokerName:'b'},zebra:1,}",
        '{"inner":{"addresses":{0:"x",1:"y"},"brokerName":"b","unknown":{}},"zebra":"1","more":[{}]}',
        '{"x":{"addresses":{0:"x",1:"y"},"brokerName":"b"},"inner":{"$ref":"$.x"},"zebra":1.0}',
    ],
)
def test_equivalent_documents_decode_to_the_same_value(text: str) -> None:
    assert Sample.decode(text.encode()) == Sample(zebra=1, inner=Inner("b", {0: "x", 1: "y"}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"zebra":"many"}', "not a Sample: Expected `int`, got `str` - at `$.zebra`"),
        ("{zebra:many}", "unexpected 'many' at character 11 of 12"),
        ("{zebra:'many'}", "not a Sample: Expected `int`, got `str` - at `$.zebra`"),
        ('{"inner":{}}', "not a Sample: Object missing required field `brokerName` - at `$.inner`"),
        ("{inner:{}}", "not a Sample: Object missing required field `brokerName` - at `$.inner`"),
        ("[]", "not a Sample: Expected `object`, got `array`"),
        ('{"inner":{"brokerName":"b","addresses":{"x":"y"}}}', "not a Sample: Expected `int`, got `str`"),
        ('{"names":["\\ud800"]}', "invalid string at character"),
    ],
)
def test_the_error_names_the_expected_type_and_the_position(text: str, reason: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        Sample.decode(text.encode())

    assert reason in str(raised.value)


@pytest.mark.parametrize("strict", [False, True])
def test_encoded_documents_decode_to_the_same_value(strict: bool) -> None:
    whole = Sample(
        zebra=2**63 - 1,
        apple="ü€/<\\\"'>\u2028\x7f\x00😀",
        inner=Inner("b", {2: "z", 0: "", -1: "y"}),
        names=["", " ", "$ref", '{"$ref":"$"}'],
        ratio=1e-7,
        is_on=True,
    )

    encoded = whole.encode(strict=strict)

    assert Sample.decode(encoded) == whole
    assert not strict or json.loads(encoded)["apple"] == whole.apple


def test_object_keys_are_decoded_to_their_declared_struct() -> None:
    written = Places({Place(7): 1, Place(8): 2}, [{"x": {Place(9): Inner("b", {0: "a"})}}])

    assert Places.decode(written.encode()) == written
    assert Places.decode(b'{"byPlace":{{"queueId":"7"}:"1"}}') == Places({Place(7): 1})
    with pytest.raises(ProtocolError):
        Places.decode(b'{"byPlace":{{"queueId":"x"}:1}}')
    with pytest.raises(ProtocolError):
        Places.decode(b'{"byPlace":{{}:1}}')
