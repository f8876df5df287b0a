"""`kerolox consume`: messages are printed as they come."""

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Any

import click

from kerolox.admin import AdminClient
from kerolox.cli import formats
from kerolox.cli.admin.connecting import client as admin_client
from kerolox.cli.admin.errors import Misused
from kerolox.cli.admin.times import parse_millis
from kerolox.cli.clients import connected, connecting_options, run
from kerolox.client import ConsumeFrom, PullConsumer
from kerolox.client.messages import Received
from kerolox.client.options import Options
from kerolox.wire.bodies.queues import MessageQueue

# Brokers have this group for who only looks.
_TOOLS_GROUP = "TOOLS_CONSUMER"
# A member of a group has come to the end when nothing has come for so long.
_IDLE_SECONDS = 2.0
_POLL_COUNT = 32


@click.command()
@click.argument("topic")
@click.option("-g", "--group", help="Consume as one of this group, and have it go on there the next time.")
@click.option(
    "--from",
    "start",
    default="first",
    show_default=True,
    metavar="first|last|TIME",
    help="Where to begin; a group only where it never was. TIME is 2024-02-29T23:59:59, or milliseconds.",
)
@click.option("-c", "--count", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("-e", "--exit", "is_ending", is_flag=True, help="End where the topic ends, and do not wait for more.")
@click.option("-t", "--tag", "expression", default="*", help="Only messages with this tag; several: 'a || b'.")
@click.option("-f", "--format", "layout", default=formats.DEFAULT, help=f"How to print one: {formats.HELP}.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON, a message to a line.")
@connecting_options
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
    """Print the messages of TOPIC. Without a group nobody's progress is touched.

    \b
    kerolox consume orders --from last
    kerolox consume orders -e -f '%p@%o %k: %s\\n'
    kerolox consume orders -g billing -c 10 --json
    """
    options = connected(**connection)
    run(_consume(options, topic, group, start, count, is_ending, expression, layout, is_json))


async def _consume(
    options: Options,
    topic: str,
    group: str | None,
    start: str,
    count: int | None,
    is_ending: bool,
    expression: str,
    layout: str,
    is_json: bool,
) -> None:
    shown: Callable[[Received], bytes] = formats.as_json if is_json else formats.formatter(layout)
    millis = None if start in ("first", "last") else parse_millis(start, "--from")
    if group is not None:
        batches = _as_member(options, topic, group, start, millis, is_ending, expression, count)
    elif is_ending:
        batches = _what_is_there(options, topic, start, millis, expression)
    else:
        batches = _as_onlooker(options, topic, start, millis, expression)
    output = sys.stdout.buffer
    left = count
    async with contextlib.aclosing(batches):
        async for messages in batches:
            for message in messages[:left]:
                output.write(shown(message))
            output.flush()
            left = None if left is None else left - len(messages)
            # A member ends by itself, so that what was printed counts as consumed.
            if left is not None and left <= 0 and group is None:
                return


async def _what_is_there(
    options: Options, topic: str, start: str, millis: int | None, expression: str
) -> AsyncGenerator[list[Received], None]:
    async with admin_client(options) as admin:
        if start == "last":
            await admin.topics.route(topic)
            return
        async for message in admin.messages.read_topic(topic, begin=millis, expression=expression):
            yield [message]


async def _as_onlooker(
    options: Options, topic: str, start: str, millis: int | None, expression: str
) -> AsyncGenerator[list[Received], None]:
    async with (
        admin_client(options) as admin,
        PullConsumer(_TOOLS_GROUP, options=options, auto_commit=False) as consumer,
    ):
        queues = await consumer.queues(topic)
        places = {queue: await _place(admin, queue, start, millis) for queue in queues}
        await consumer.assign(queues, expression)
        for queue, offset in places.items():
            await consumer.seek(queue, offset)
        while True:
            yield await consumer.poll()


async def _place(admin: AdminClient, queue: MessageQueue, start: str, millis: int | None) -> int:
    if millis is not None:
        return await admin.queues.search(queue, millis)
    return await (admin.queues.min_offset(queue) if start == "first" else admin.queues.max_offset(queue))


async def _as_member(
    options: Options,
    topic: str,
    group: str,
    start: str,
    millis: int | None,
    is_ending: bool,
    expression: str,
    left: int | None,
) -> AsyncGenerator[list[Received], None]:
    async with admin_client(options) as admin:
        # Who waits for a topic that is not there waits long.
        await admin.topics.route(topic)
    begin = {"first": ConsumeFrom.FIRST_OFFSET, "last": ConsumeFrom.LAST_OFFSET}.get(start, ConsumeFrom.TIMESTAMP)
    moment = None if millis is None else _moment(millis)
    consumer = PullConsumer(
        group, topics={topic: expression}, options=options, consume_from=begin, consume_timestamp=moment
    )
    async with consumer:
        while left is None or left > 0:
            # No more than is printed, for what is handed out is consumed.
            messages = await consumer.poll(min(left or _POLL_COUNT, _POLL_COUNT), timeout_seconds=_IDLE_SECONDS)
            if messages:
                yield messages
            elif is_ending:
                return
            left = None if left is None else left - len(messages)


def _moment(millis: int) -> datetime:
    try:
        return datetime.fromtimestamp(millis / 1000)
    except (ValueError, OverflowError, OSError):
        raise Misused(f"--from {millis} is a time that no calendar has") from None
