import itertools
import os
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.compiled import KEY_COUNTER, CompiledGenerator, ring_file
from bench.exchange import WrongAnswerError
from bench.fairness import measure
from bench.frames import decode, encode
from bench.generator import Load
from bench.messages import pulls, send, sends
from bench.ordinary import Traffic
from tests.apache.requirements import unmet


@pytest.fixture
def generator(tmp_path: Path) -> Iterator[CompiledGenerator]:
    if shutil.which("cc") is None:
        unmet("needs a C compiler, cc")
    made = CompiledGenerator(tmp_path)
    yield made
    made.close()


def test_ring_file_says_where_opaque_and_key_counter_of_each_frame_are() -> None:
    data = ring_file(sends("orders", 16, count=2))

    (count, size, opaque_at, key_at) = struct.unpack_from("=IIII", data)
    frame = data[16 : 16 + size]
    assert count == 2
    assert frame[opaque_at : opaque_at + 7] == b"1000000"
    assert frame[key_at : key_at + 8] == KEY_COUNTER


def test_ring_file_of_frames_without_keys_has_no_key_offsets() -> None:
    assert struct.unpack_from("=IIII", ring_file(pulls("orders", 1)))[3] == 0


def test_every_request_is_answered_once(generator: CompiledGenerator) -> None:
    with generator.answering(0) as (port, pid):
        result = generator.run(Load(port, pid, sends("orders", 128), 4, 16, 0.05))

    assert result.answered >= 4 * 16
    assert result.refused == 0
    assert 0 < result.p50 <= result.p99 < result.seconds


def test_requests_with_binary_headers_are_answered_as_well(generator: CompiledGenerator) -> None:
    with generator.answering(0) as (port, pid):
        result = generator.run(Load(port, pid, Traffic(topics=2).ring(0), 4, 16, 0.05))

    assert result.answered >= 4 * 16
    assert result.refused == 0


def test_a_client_and_producers_are_measured_alone_and_beside_each_other(generator: CompiledGenerator) -> None:
    with generator.answering(0) as (port, pid):
        client, producers = (Load(port, pid, sends("orders", 128), *profile, 0.05) for profile in ((1, 1), (4, 64)))
        found = measure(generator, client, producers, lead_seconds=0.05)

    assert all(result.answered for result in found.results)
    assert 0 < found.client_share == found.client_beside.rate / found.client_alone.rate
    assert 0 < found.producers_share == found.producers_beside.rate / found.producers_alone.rate


def test_bytes_of_bodies_are_counted(generator: CompiledGenerator) -> None:
    with generator.answering(1000) as (port, pid):
        result = generator.run(Load(port, pid, pulls("orders", 4), 1, 1, 0.05))

    assert result.body_bytes == 1000 * result.answered


def test_no_two_requests_have_the_same_key(generator: CompiledGenerator) -> None:
    seen: list[bytes] = []

    def answered(frame: bytes) -> bytes:
        at = frame.index(b"4D35") + 4
        seen.append(frame[at : at + 8])
        return encode(0, {}, opaque=decode(frame).header["opaque"], flag=1)

    with _served(answered) as port:
        generator.run(Load(port, os.getpid(), sends("orders", 16), 1, 4, 0.02))

    assert len(seen) == len(set(seen)) >= 4


def test_a_load_with_only_refusals_has_no_result(generator: CompiledGenerator) -> None:
    with (
        _served(lambda frame: encode(2, {}, opaque=decode(frame).header["opaque"], flag=1)) as port,
        pytest.raises(WrongAnswerError, match="not one of"),
    ):
        generator.run(Load(port, os.getpid(), sends("orders", 16), 1, 1, 0.02))


def test_a_pull_that_finds_no_message_is_answered_and_not_refused(generator: CompiledGenerator) -> None:
    codes = itertools.cycle((0, 19, 20, 21))

    with _served(lambda frame: encode(next(codes), {}, opaque=decode(frame).header["opaque"], flag=1)) as port:
        result = generator.run(Load(port, os.getpid(), pulls("orders", 4), 1, 4, 0.02))

    # Codes come in turns of four, and the first turn is complete.
    assert result.refused >= 1
    assert 2 * result.refused <= result.empty_pulls <= 2 * result.refused + 2
    assert result.empty_pulls < result.answered <= 3 * result.refused + 3
    assert "21" in result.refusal


def test_a_response_with_an_unknown_opaque_ends_the_load(generator: CompiledGenerator) -> None:
    with (
        _served(lambda _: encode(0, {}, opaque=7_654_321, flag=1)) as port,
        pytest.raises(WrongAnswerError, match="nothing that was asked"),
    ):
        generator.run(Load(port, os.getpid(), sends("orders", 16), 1, 1, 0.02))


def test_a_send_is_a_whole_frame() -> None:
    assert decode(send("orders", 3, b"body")).body == b"body"


class _served:  # noqa: N801
    """A server of one connection that answers each frame with the result of a function."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._listener.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as stream:
            while prefix := stream.read(4):
                connection.sendall(self._answer(prefix + stream.read(int.from_bytes(prefix))))
