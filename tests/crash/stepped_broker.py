"""A broker process with a wall clock that the test steps: each line on stdin is an offset in milliseconds.

`python -m tests.crash.stepped_broker DIRECTORY MILLIS` prints its address, and stops cleanly at the end of stdin.
"""

import asyncio
import sys
from pathlib import Path

from kerolox.broker import Broker
from kerolox.runtime.clock import SystemClock
from tests.broker.brokers import settings

SETTINGS = {"brokerIP1": "127.0.0.1", "timerPrecisionMs": "100", "mappedFileSizeTimerLog": str(52 * 100)}


class SteppedClock(SystemClock):
    def __init__(self, ahead_millis: int) -> None:
        self.ahead_millis = ahead_millis

    def millis(self) -> int:
        return super().millis() + self.ahead_millis


async def main(directory: Path, ahead_millis: int) -> None:
    clock = SteppedClock(ahead_millis)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with Broker(settings(directory, **SETTINGS), clock=clock) as broker:
        print(broker.address, flush=True)
        failing = asyncio.create_task(broker.wait())
        while True:
            reading = asyncio.create_task(reader.readline())
            await asyncio.wait([reading, failing], return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                # Raise the error of a failed service of the broker.
                failing.result()
            if not (line := reading.result()):
                failing.cancel()
                return
            clock.ahead_millis = int(line)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
