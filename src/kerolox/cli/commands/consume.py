"""`kerolox consume`: prints messages as they arrive."""

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from kerolox.admin import AdminClient
from kerolox.cli import formats
from kerolox.cli.admin.connection_options import admin_client
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.java_times import parse_millis
from kerolox.cli.client_options import connection_flags, run, to_client_options
from kerolox.client import ConsumeFrom, PullConsumer
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.wire.bodies.queues import MessageQueue

# RocketMQ's group for tools that read without committing offsets.
_TOOLS_GROUP = "TOOLS_CONSUMER"
# With --exit, a member of a group takes the topic as read when nothing has arrived for this long.
_IDLE_SECONDS = 2.0
_POLL_COUNT = 32
_CONSUME_FROM = {"first": ConsumeFrom.FIRST_OFFSET, "last": ConsumeFrom.LAST_OFFSET}


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments that choose the messages."""

    topic: str
    group: str | None
    # `first`, `last` or a time.
    start: str
    count_max: int | None
    # Exit at the end of the topic.
    is_ending: bool
    expression: str


@click.command()
@click.argument("topic")
@click.option("-g", "--group", help="Consume as a member of this group, and commit its offsets.")
@click.option(
    "--from",
    "start",
    default="first",
    show_default=True,
    metavar="first|last|TIME",
    help="Where to start; for a group, only where it has no offset. TIME is 2024-02-29T23:59:59, or milliseconds.",
)
@click.option("-c", "--count", type=click.IntRange(min=1), help="Exit after this many messages.")
@click.option("-e", "--exit", "is_ending", is_flag=True, help="Exit at the end of the topic instead of waiting.")
@click.option("-t", "--tag", "expression", default="*", help="Only messages with this tag; several: 'a || b'.")
@click.option("-f", "--format", "layout", default=formats.DEFAULT, help=f"Format of a message: {formats.HELP}.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON, one message per line.")
@connection_flags
def consume(
    topic: str,
    group: str | None,
    start: str,
    count: int | None,
    is_ending: bool,
    expression: str,
    layout: str,
    is_json: bool,
    **connection: Any,
) -> None:
    """Print the messages of TOPIC. Without --group no offsets are committed.

    \b
    kerolox consume orders --from last
    kerolox consume orders -e -f '%p@%o %k: %s\\n'
    kerolox consume orders -g billing -c 10 --json
    """
    request = _Request(topic, group, start, count, is_ending, expression)
    run(_consume(to_client_options(**connection), request, layout, is_json))


async def _consume(options: Options, request: _Request, layout: str, is_json: bool) -> None:
    to_bytes: Callable[[Received], bytes] = (
        formats.as_json if is_json else formats.formatter(layout, is_terminal=sys.stdout.isatty())
    )
    millis = None if request.start in ("first", "last") else parse_millis(request.start, "--from")
    if request.group is not None:
        batches = _consume_as_member(options, request, request.group, millis)
    elif request.is_ending:
        batches = _read_to_end(options, request, millis)
    else:
        batches = _follow(options, request, millis)
    output = sys.stdout.buffer
    left = request.count_max
    async with contextlib.aclosing(batches):
        async for messages in batches:
            for message in messages[:left]:
                output.write(to_bytes(message))
            output.flush()
            left = None if left is None else left - len(messages)
            # A member of a group stops by itself: closing its generator here would end its consumer with an exception
            # (GeneratorExit), and the offsets of the last batch would not be committed.
            if left is not None and left <= 0 and request.group is None:
                return


async def _read_to_end(options: Options, request: _Request, millis: int | None) -> AsyncGenerator[list[Received], None]:
    async with admin_client(options) as admin:
        if request.start == "last":
            # Nothing to read, but an unknown topic is an error.
            await admin.topics.route(request.topic)
            return
        async for message in admin.messages.read_topic(request.topic, begin=millis, expression=request.expression):
            yield [message]


async def _follow(options: Options, request: _Request, millis: int | None) -> AsyncGenerator[list[Received], None]:
    """Read all queues without a group, and wait for new messages."""
    async with (
        admin_client(options) as admin,
        PullConsumer(_TOOLS_GROUP, options=options, auto_commit=False) as consumer,
    ):
        queues = await consumer.queues(request.topic)
        offsets = {queue: await _start_offset(admin, queue, request.start, millis) for queue in queues}
        await consumer.assign(queues, request.expression)
        for queue, offset in offsets.items():
            await consumer.seek(queue, offset)
        while True:
            yield await consumer.poll()


async def _start_offset(admin: AdminClient, queue: MessageQueue, start: str, millis: int | None) -> int:
    if millis is not None:
        return await admin.queues.search(queue, millis)
    return await (admin.queues.min_offset(queue) if start == "first" else admin.queues.max_offset(queue))


async def _consume_as_member(
    options: Options, request: _Request, group: str, millis: int | None
) -> AsyncGenerator[list[Received], None]:
    async with admin_client(options) as admin:
        # Report an unknown topic now: a consumer would wait for it to appear.
        await admin.topics.route(request.topic)
    consumer = PullConsumer(
        group,
        topics={request.topic: request.expression},
        options=options,
        consume_from=_CONSUME_FROM.get(request.start, ConsumeFrom.TIMESTAMP),
        consume_timestamp=None if millis is None else _to_datetime(millis),
    )
    left = request.count_max
    async with consumer:
        while left is None or left > 0:
            # Poll no more than is printed, since every message that poll returns will be committed.
            messages = await consumer.poll(min(left or _POLL_COUNT, _POLL_COUNT), timeout_seconds=_IDLE_SECONDS)
            if messages:
                yield messages
            elif request.is_ending:
                return
            left = None if left is None else left - len(messages)


def _to_datetime(millis: int) -> datetime:
    try:
        return datetime.fromtimestamp(millis / 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidUsage(f"--from {millis} is out of the range of dates") from None
