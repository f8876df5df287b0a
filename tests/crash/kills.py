"""Kills a broker repeatedly under load, and compares its store with the acknowledged messages."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError
from kerolox.message.message import Message
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from kerolox.wire.headers.messages import SendMessageV2
from tests.apache.processes import Process
from tests.broker.brokers import pulling, sending

KILLS = 25
QUEUES = 8
# Messages acknowledged per run before the kill, which follows at a random time.
_ACKNOWLEDGED_MIN = 40
_LIFE_SECONDS_MAX = 0.2
_PROGRESS_SECONDS = 30.0
_BODY = re.compile(rb"(\d+) (\d+)")


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledgement of message `number` of a queue: its offset."""

    queue_id: int
    number: int
    queue_offset: int


def body_of(queue_id: int, number: int) -> bytes:
    return b"%d %d" % (queue_id, number)


def first_of(topic: str, queue_id: int = 0) -> SendMessageV2:
    """A send that auto-creates the topic with QUEUES queues."""
    request = sending(topic, queue_id)
    request.default_topic_queue_nums = QUEUES
    return request


def kill_repeatedly(
    start: Callable[[], AbstractContextManager[Process]], count_acknowledged: Callable[[], int], kills: int = KILLS
) -> int:
    """Start a broker and kill it under load, `kills` times. Returns how many messages were acknowledged."""
    chance = random.Random()
    acknowledged = count_acknowledged()
    for _ in range(kills):
        with start() as broker:
            _wait_for_progress(count_acknowledged, acknowledged + _ACKNOWLEDGED_MIN, broker)
            time.sleep(chance.uniform(0, _LIFE_SECONDS_MAX))
            assert broker.is_running, broker.output()[-3000:]
            broker.kill()
        acknowledged = count_acknowledged()
    return acknowledged


def _wait_for_progress(count_acknowledged: Callable[[], int], wanted: int, broker: Process) -> None:
    deadline = time.monotonic() + _PROGRESS_SECONDS
    while (count := count_acknowledged()) < wanted:
        assert time.monotonic() < deadline, f"{count} of {wanted} acknowledged: {broker.output()[-3000:]}"
        time.sleep(0.01)


async def pull(client: Client, address: str, topic: str, queue_id: int, queue_offset: int) -> list[Message]:
    """Return the next messages of a queue, none at its end."""
    try:
        reply = await client.call(address, pulling(topic, queue_id, queue_offset))
    except AnswerError as error:
        if error.code != ResponseCode.PULL_NOT_FOUND:
            raise
        return []
    return decode_all(reply.body)


async def stored(address: str, topic: str, queue_id: int) -> list[Message]:
    """Return all messages of a queue."""
    found: list[Message] = []
    async with Client() as client:
        while True:
            messages = await pull(client, address, topic, queue_id, len(found))
            if not messages:
                return found
            found += messages


async def check(address: str, topic: str, acknowledged: list[Acknowledged]) -> int:
    """Compare the queues with the acknowledgements. Returns the number of duplicates.

    A producer that was not answered sends again, so a message may be there twice; what was sent later comes later.
    """
    twice = 0
    for queue_id in range(QUEUES):
        messages = await stored(address, topic, queue_id)
        numbers = []
        for offset, message in enumerate(messages):
            assert message.queue_offset == offset
            match = _BODY.fullmatch(message.body)
            assert match is not None, message
            assert int(match[1]) == queue_id
            numbers.append(int(match[2]))
        promised = [it for it in acknowledged if it.queue_id == queue_id]
        lost = [it for it in promised if it.queue_offset >= len(numbers) or numbers[it.queue_offset] != it.number]
        assert not lost, f"queue {queue_id}: {len(lost)} acknowledged messages lost, the first {lost[0]}"
        assert numbers == sorted(numbers), f"queue {queue_id} is out of order"
        assert sorted(set(numbers)) == list(range(len(set(numbers)))), f"queue {queue_id} has gaps"
        twice += len(numbers) - len(set(numbers))
    return twice
