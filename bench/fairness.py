"""Measures a client with one request in flight beside producers that keep thousands in flight."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from bench.compiled import CompiledGenerator, CompiledResult
from bench.generator import Load, Result

# The load in the background starts this much earlier than the measured one, and ends this much later.
LEAD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Fairness:
    """The results of the client and of the flooding producers, each alone and beside the other."""

    client_alone: Result
    client_beside: Result
    producers_alone: Result
    producers_beside: Result

    @property
    def results(self) -> tuple[Result, ...]:
        return self.client_alone, self.client_beside, self.producers_alone, self.producers_beside

    @property
    def client_share(self) -> float:
        """The share of its own rate that the client keeps beside the producers."""
        return self.client_beside.rate / self.client_alone.rate

    @property
    def producers_share(self) -> float:
        """The share of their own rate that the producers keep beside the client."""
        return self.producers_beside.rate / self.producers_alone.rate


def measure(
    generator: CompiledGenerator, client: Load, producers: Load, *, lead_seconds: float = LEAD_SECONDS
) -> Fairness:
    """Run both loads alone, then each of them while the other one runs in the background."""
    return Fairness(
        client_alone=generator.run(client),
        producers_alone=generator.run(producers),
        client_beside=beside(generator, client, producers, lead_seconds),
        producers_beside=beside(generator, producers, client, lead_seconds),
    )


def beside(generator: CompiledGenerator, measured: Load, background: Load, lead_seconds: float) -> CompiledResult:
    """Return the result of a load during which the other one never pauses.

    If both started together, the rate of each would include a time in which it is alone: while the other one connects,
    and while it awaits its last responses.
    """
    longer = replace(background, seconds=measured.seconds + 2 * lead_seconds)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(generator.run, longer)
        time.sleep(lead_seconds)
        result = generator.run(measured)
        running.result()
    return result
