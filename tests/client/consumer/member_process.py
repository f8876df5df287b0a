"""A member of a group as a process: prints its assigned queues when they change, and appends message bodies to a file.

Arguments: NameServer addresses, group, topic, and the file, which gets one body per line.
"""

import asyncio
import sys
import time
from pathlib import Path

from kerolox.client import ConsumeFrom, PushConsumer, Received

_LOOK_SECONDS = 0.005


async def main(namesrv_addr: str, group: str, topic: str, file: Path) -> None:
    with file.open("ab", buffering=0) as bodies:

        async def handle(messages: list[Received]) -> None:
            # Written before the message counts as consumed, so a kill cannot lose a committed message.
            bodies.write(b"".join(message.body + b"\n" for message in messages))

        print("joining", time.monotonic(), flush=True)
        consumer = PushConsumer(
            group, handle, topics=topic, consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=namesrv_addr
        )
        async with consumer:
            shown = ""
            while True:
                has = [f"{queue.broker_name}:{queue.queue_id}" for queue in consumer.assigned if queue.topic == topic]
                if " ".join(has) != shown:
                    shown = " ".join(has)
                    print("has", shown, flush=True)
                await asyncio.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])))
