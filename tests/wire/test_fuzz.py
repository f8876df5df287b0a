"""Damaged input raises the errors of the codec, and nothing else.

Each case damages a frame that Java wrote and is made from its number alone, so a failure is seen again with

    KEROLOX_FUZZ_FIRST=<number> KEROLOX_FUZZ_CASES=1 .venv/bin/pytest tests/wire/test_fuzz.py -s
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerolox.codes import RequestCode
from kerolox.errors import AnswerError, ProtocolError
from kerolox.runtime.text import fastjson, properties
from kerolox.wire import command
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.registration import compress, decompress
from kerolox.wire.command import BINARY, JSON
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import Header, ext_text
from kerolox.wire.integers import Int32, Int64
from tests.golden.recordings import VERSIONS, Direction, load
from tests.wire.declared import ANSWER_BODIES, REQUESTS, request_body

FIRST = int(os.environ.get("KEROLOX_FUZZ_FIRST", "0"))
CASES = int(os.environ.get("KEROLOX_FUZZ_CASES", "20000"))
REPORT_EVERY = 100_000

# CPU time of one case; a longer one is an attack.
CASE_SECONDS_MAX = 0.5
MEMORY_MIB_MAX = 300

Random = random.Random

# Frames


class Seed:
    """A frame written by Java, split into its parts, with its header and body classes."""

    def __init__(self, code: int, is_answer: bool, frame: bytes) -> None:
        ((self.serialization, self.header, self.body),) = FrameReader().feed(frame)
        found = command.decode((self.serialization, self.header, self.body))
        self.code = code
        self.kind: type[Header] | None = REQUESTS.get(code)
        if self.kind is not None and is_answer:
            self.kind = REQUESTS[code].answer
        self.body_kind: type[Body] | None = ANSWER_BODIES.get(code) if is_answer else request_body(code, found.version)
        self.is_compressed = not is_answer and ext_text(found.ext).get("compressed") == "true"
        self.plain = zlib.decompress(self.body) if self.is_compressed else b""

    @property
    def is_sound(self) -> bool:
        try:
            return self.body_kind is None or self.is_compressed or self.body_kind.decode(self.body or b"{}") is not None
        except ProtocolError:
            return False


def seeds() -> list[Seed]:
    """Return the shortest frame of each kind; those with a body occur more often, since they have more to damage."""
    found: dict[Any, Seed] = {}
    for version in VERSIONS:
        for recording in load(version):
            seed = Seed(recording.code, recording.direction is Direction.RESPONSE, recording.frame)
            shape = seed.serialization, seed.kind, seed.body_kind, bool(seed.body), seed.is_compressed
            if seed.is_sound and (shape not in found or len(seed.body) < len(found[shape].body)):
                found[shape] = seed
    return [seed for seed in found.values() for _ in range(5 if seed.body else 1)]


SEEDS = seeds()

NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    21,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    2**24 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
)
TOKENS = (
    b"{", b"}", b"[", b"]", b":", b",", b'"', b"'", b"\\", b"null", b"true", b"false", b"NaN", b"-", b".", b" ", b"\n",
    b"0", b"-1", b"1.5", b"1e999", b"-1e-999", b"9" * 19, b"9" * 400, b"9" * 5000, b"2147483648", b'""', b"''", b"[]",
    b"{}", b"{{}:1}", b"{[]:{}}", b'{"$ref":"$"}', b'{"$ref":".."}', b'{"$ref":"$.a[0]"}', b"{0:1}", b"\\u0000",
    b"\\ud800", b"\\udc00", b"\\q", b"\\u12", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80",
    b"\xf5\x80\x80\x80", b"\xe2\x80", "٣".encode(), "\u2028".encode(), "é".encode(), b"/*", b"//", b"#", b"=", b"\r\n",
    b'"code":1', b'"opaque":null', b'"extFields":[]', b'"body":1', b'"language":{}', b'"brokerId":"x"', b'"0":0',
    b"{" * 40 + b":1}" * 40, b'{"a":' * 40 + b"1" + b"}" * 40,
)  # fmt: skip
OPENINGS = (b"[", b"{", b'{"a":', b"{a:", b"{[", b"[{", b'["', b"{'", b"-", b"\\", b"{{a:1}:")


def flip_bits(data: bytearray, chance: Random) -> None:
    for _ in range(chance.randrange(1, 5)):
        if data:
            data[int(chance.random() * len(data))] ^= 1 << int(chance.random() * 8)


def put_bytes(data: bytearray, chance: Random) -> None:
    for _ in range(chance.randrange(1, 4)):
        if data:
            data[int(chance.random() * len(data))] = int(chance.random() * 256)


def cut(data: bytearray, chance: Random) -> None:
    del data[int(chance.random() * (len(data) + 1)) :]


def cut_out(data: bytearray, chance: Random) -> None:
    start = int(chance.random() * (len(data) + 1))
    del data[start : start + int(chance.random() * 16) + 1]


def repeat(data: bytearray, chance: Random) -> None:
    start = int(chance.random() * (len(data) + 1))
    piece = bytes(data[start : start + int(chance.random() * 40) + 1])
    data[start:start] = piece * int(chance.random() * 4)


def insert_token(data: bytearray, chance: Random) -> None:
    for _ in range(chance.randrange(1, 3)):
        start = int(chance.random() * (len(data) + 1))
        data[start:start] = chance.choice(TOKENS)


def replace_value(data: bytearray, chance: Random) -> None:
    """Replace the start of a JSON value."""
    start = data.find(b":", int(chance.random() * (len(data) + 1))) + 1
    stop = min((at for at in (data.find(b",", start), data.find(b"}", start)) if at >= 0), default=len(data))
    data[start:stop] = chance.choice(TOKENS)


def nest(data: bytearray, chance: Random) -> None:
    start = int(chance.random() * (len(data) + 1))
    data[start:start] = chance.choice(OPENINGS) * chance.choice((2, 30, 63, 70, 500))


def put_number(data: bytearray, chance: Random) -> None:
    start = int(chance.random() * (len(data) + 1))
    data[start : start + 4] = struct.pack(">I", chance.choice(NUMBERS))


def splice(data: bytearray, chance: Random) -> None:
    other = chance.choice(SEEDS)
    piece = other.header if chance.random() < 0.5 else other.body or other.header
    start, there = int(chance.random() * (len(data) + 1)), int(chance.random() * (len(piece) + 1))
    data[start:] = piece[there:]


DAMAGES: tuple[Callable[[bytearray, Random], None], ...] = (
    flip_bits, flip_bits, put_bytes, cut, cut_out, repeat, insert_token, insert_token, replace_value, replace_value,
    nest, put_number, splice,
)  # fmt: skip


def damaged(data: bytes, chance: Random) -> bytes:
    changed = bytearray(data)
    chance.choice(DAMAGES)(changed, chance)
    if chance.random() < 0.2:
        chance.choice(DAMAGES)(changed, chance)
    return bytes(changed)


def make(number: int, chance: Random) -> tuple[Seed, bytes]:
    """Return case `number`: a byte stream and the seed it was made from."""
    chance.seed(number)
    seed = chance.choice(SEEDS)
    header, body = seed.header, seed.body
    where = chance.random()
    if body and where < 0.6:
        if seed.is_compressed and where < 0.4:
            body = zlib.compress(damaged(seed.plain, chance), 1)
        else:
            body = damaged(body, chance)
    elif where < 0.8:
        header = damaged(header, chance)
    length, serialization = 4 + len(header) + len(body), seed.serialization
    if where > 0.97:
        serialization = int(chance.random() * 4)
    stream = struct.pack(">II", length, serialization << 24 | len(header) & 0xFFFFFF) + header + body
    if where >= 0.9:
        # The damage may be anywhere, including the lengths.
        stream = damaged(stream[:8], chance) + stream[8:] if where < 0.95 else damaged(stream, chance)
        if chance.random() < 0.3:
            stream += stream
    return seed, stream


def exercise(seed: Seed, stream: bytes, chance: Random) -> int:
    """Process the stream like a server and like a client; return the number of accepted parts."""
    reader = FrameReader()
    at = int(chance.random() * (len(stream) + 1))
    frames = reader.feed(stream[:at])
    if reader.broken is None:
        frames += reader.feed(stream[at:])
    assert reader.partial_size <= len(stream)
    accepted = 0
    for frame in frames:
        try:
            found = command.decode(frame)
        except ProtocolError:
            continue
        accepted += exercise_command(seed, found)
    return accepted


def exercise_command(seed: Seed, found: command.Command) -> int:
    accepted = 1
    with contextlib.suppress(ProtocolError):
        found.encode()
    kind = seed.kind if found.code == seed.code or found.is_answer else REQUESTS.get(found.code, seed.kind)
    if kind is not None:
        try:
            kind.decode(found.ext).ext()
            accepted += 1
        except AnswerError:
            pass
    if not found.body:
        return accepted
    try:
        if seed.is_compressed:
            compressed = decompress(found.body, found.version)
            compress(compressed, found.version)
        elif seed.body_kind is not None:
            body = seed.body_kind.decode(found.body)
            exercise_written(body)
        elif found.code == RequestCode.UPDATE_NAMESRV_CONFIG:
            properties.parse(found.body.decode(errors="replace"))
        accepted += 1
    except ProtocolError:
        pass
    return accepted


def exercise_written(body: Body) -> None:
    """An accepted body is sent on to others, so it must encode and decode again."""
    lax, strict = body.encode(), body.encode(strict=True)
    try:
        assert type(body).decode(lax) == type(body).decode(strict)
    except ProtocolError as error:
        raise AssertionError(f"cannot read what it has written: {strict!r}") from error


def test_a_damaged_frame_is_refused_or_decoded_in_bounded_time() -> None:
    chance = Random()
    accepted = 0
    started = time.monotonic()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(FIRST, FIRST + CASES):
        seed, stream = make(number, chance)
        before = time.thread_time()
        try:
            accepted += exercise(seed, stream, chance)
        except Exception as error:
            pytest.fail(f"{replay(number, stream)}\n{type(error).__name__}: {error}")
        if time.thread_time() - before > CASE_SECONDS_MAX:
            pytest.fail(f"{replay(number, stream)}\ntook more than {CASE_SECONDS_MAX} s")
        done = number + 1 - FIRST
        if done % REPORT_EVERY == 0:
            seconds = time.monotonic() - started
            print(f"{done:,} of {CASES:,} damaged frames, {done / seconds:,.0f} a second, {accepted:,} parts accepted")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) // 1024

    assert grown < MEMORY_MIB_MAX, f"{grown} MiB more than before"
    # If no damaged frame were accepted, only the first check would be tested.
    assert accepted > CASES / 3 or CASES < 1000


def replay(number: int, stream: bytes) -> str:
    return (
        f"case {number}: KEROLOX_FUZZ_FIRST={number} KEROLOX_FUZZ_CASES=1 .venv/bin/pytest tests/wire/test_fuzz.py -s\n"
        f"{stream[:2000]!r}{' and more' if len(stream) > 2000 else ''}"
    )


def test_a_fuzz_case_depends_only_on_its_number() -> None:
    first = [make(number, Random())[1] for number in range(50)]

    assert first == [make(number, Random())[1] for number in range(50)]
    assert len(set(first)) > 45


# Properties of all values

steady = settings(max_examples=150, deadline=None, derandomize=True, database=None)

# Lone surrogates cannot be encoded as UTF-8.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
numbers = st.integers(-(2**31), 2**31 - 1)


def header_of(kind: type[Header]) -> st.SearchStrategy[Header]:
    by_type: dict[Any, st.SearchStrategy[Any]] = {
        str: names,
        Int32: st.integers(-(2**31), 2**31 - 1),
        Int64: st.integers(-(2**63), 2**63 - 1),
        bool: st.booleans(),
    }
    by_type |= {plain | None: st.none() | strategy for plain, strategy in by_type.items()}
    return st.builds(kind, **{field.name: by_type[field.type] for field in msgspec.structs.fields(kind)})


@steady
@given(
    header=st.one_of([header_of(kind) for kind in REQUESTS.values()]),
    opaque=numbers,
    flag=numbers,
    version=st.integers(-(2**15), 2**15 - 1),
    remark=st.none() | names,
    body=st.binary(max_size=50),
    serialization=st.sampled_from([JSON, BINARY]),
)
def test_any_header_survives_both_serializations(
    header: Any, opaque: int, flag: int, version: int, remark: str | None, body: bytes, serialization: int
) -> None:
    frame = command.encode(
        serialization,
        code=header.code,
        opaque=opaque,
        flag=flag,
        version=version,
        remark=remark,
        ext=header.ext(),
        body=body,
    )

    (found,) = FrameReader().feed(frame)
    read = command.decode(found)

    assert type(header).decode(read.ext).ext() == header.ext()
    assert (read.code, read.opaque, read.flag, read.version) == (header.code, opaque, flag, version)
    assert (read.remark, read.body) == (remark, body)


@steady
@given(fields=st.dictionaries(names, names, max_size=8), serialization=st.sampled_from([JSON, BINARY]))
def test_any_fields_survive_both_serializations(fields: dict[str, str], serialization: int) -> None:
    (found,) = FrameReader().feed(command.encode(serialization, code=1, opaque=1, ext=fields))
    read = command.decode(found)

    assert list(ext_text(read.ext).items()) == list(fields.items())
    assert read.encode() == command.encode(serialization, code=1, opaque=1, ext=fields)


members = texts.filter(lambda name: name != "$ref")
values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(members, inner, max_size=4),
    max_leaves=12,
)


@steady
@given(value=values)
def test_any_value_is_read_as_it_was_written(value: Any) -> None:
    assert fastjson.parse(fastjson.encode(value)) == value
    assert fastjson.parse(fastjson.encode(value, strict=True)) == value
    assert json.loads(fastjson.encode(value, strict=True)) == value


@steady
@given(value=st.dictionaries(st.integers(-(2**63), 2**63 - 1), texts, max_size=8), strict=st.booleans())
def test_any_integer_keys_are_read_as_they_were_written(value: dict[int, str], strict: bool) -> None:
    assert fastjson.decode(fastjson.encode(value, strict=strict), dict[int, str]) == value


@steady
@given(data=st.text(st.sampled_from("{}[]:,'\"\\$refanul01-.eé \n"), max_size=60))
def test_any_text_is_read_or_refused(data: str) -> None:
    try:
        value = fastjson.parse(data.encode())
    except ProtocolError:
        return

    fastjson.encode(value)


@steady
@given(pairs=st.dictionaries(names, texts, max_size=8))
def test_any_properties_are_read_as_they_were_written(pairs: dict[str, str]) -> None:
    assert properties.parse(properties.format_lines(pairs)) == pairs


@steady
@given(text=st.text(st.sampled_from("ab=: \t\\\n\r#!u0é\f"), max_size=60))
def test_any_text_parses_as_properties(text: str) -> None:
    once = properties.parse(text)

    assert properties.parse(properties.format_lines(once)) == once
