"""The load generator in C, compiled on this machine: the same input and results as the generator in Python."""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.exchange import WrongAnswerError
from bench.frames import OPAQUE_FIRST, Ring
from bench.generator import Generator, Load, Result

# Eight hexadecimal digits in a frame, which the generator replaces by a counter.
KEY_COUNTER = b"C0FFEE00"

_SOURCE = Path(__file__).parent / "load.c"
_GRACE_SECONDS = 60.0


class NoCompilerError(Exception):
    """load.c could not be compiled; the message ends with the compiler output."""


@dataclass(frozen=True, slots=True)
class CompiledResult(Result):
    """A result with the extra counts of the C generator: error responses, empty pulls, and bytes of bodies.

    A pull that finds no message is answered, not refused.
    """

    refused: int
    refusal: str
    empty_pulls: int
    body_bytes: int


class CompiledGenerator(Generator):
    """Runs loads with the generator in C; `call` works as in the generator in Python."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._program = directory / "load"
        command = ["cc", "-O2", "-o", str(self._program), str(_SOURCE)]
        try:
            compiled = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except OSError as error:
            raise NoCompilerError(f"the load generator needs a C compiler, cc: {error}") from error
        if compiled.returncode:
            raise NoCompilerError(f"cc ended with {compiled.returncode}: {compiled.stderr[-2000:]}")

    def run(self, load: Load) -> CompiledResult:
        with tempfile.NamedTemporaryFile(dir=self._program.parent) as ring:
            ring.write(ring_file(load.ring))
            ring.flush()
            parameters = (load.port, load.pid, load.connections, load.in_flight, load.seconds)
            command = [str(self._program), "drive", *map(str, parameters), ring.name]
            timeout = load.seconds + _GRACE_SECONDS
            driven = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if driven.returncode:
            raise WrongAnswerError(driven.stderr[-1000:])
        counted = CompiledResult(**json.loads(driven.stdout), samples=[])
        if not counted.answered:
            raise WrongAnswerError(f"not one of {counted.refused} requests succeeded: {counted.refusal}")
        return counted

    @contextlib.contextmanager
    def answering(self, body_size: int) -> Iterator[tuple[int, int]]:
        """Start a process that answers any request with a body of that size; yield its port and pid."""
        with subprocess.Popen([str(self._program), "answer", str(body_size)], stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                yield int(process.stdout.readline()), process.pid
            finally:
                process.kill()


def ring_file(ring: Ring) -> bytes:
    """Return a ring as load.c reads it."""
    parts = [struct.pack("=I", len(ring))]
    for index in range(len(ring)):
        frame = ring.slice(index, 1)
        opaque_at = 13 if frame[4] else frame.index(b'"opaque":%d' % (OPAQUE_FIRST + index)) + len(b'"opaque":')
        parts += [struct.pack("=III", len(frame), opaque_at, max(frame.find(KEY_COUNTER), 0)), frame]
    return b"".join(parts)
