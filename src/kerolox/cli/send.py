"""`kerolox send`: lines, files or JSON become messages."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from kerolox.cli.admin.times import Seconds
from kerolox.cli.clients import connected, connecting_options, run
from kerolox.cli.typed import lines as lines_of
from kerolox.client import Message, Producer
from kerolox.client.options import Options
from kerolox.errors import KeroloxError
from kerolox.message import names
from kerolox.wire.bodies.queues import MessageQueue

_IN_FLIGHT_MAX = 256
_TYPED = Path("-")


class Line(msgspec.Struct):
    """A message in JSON, as `kerolox consume --json` prints it; what else is there is passed over."""

    body: str | None = None
    body_base64: bytes | None = msgspec.field(name="bodyBase64", default=None)
    keys: list[str] = []
    tag: str | None = None
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        if (self.body is None) == (self.body_base64 is None):
            raise ValueError("it needs `body`, or `bodyBase64` for what is no text")

    def data(self) -> bytes:
        return self.body_base64 or (self.body or "").encode()


@dataclass(frozen=True, slots=True)
class Draft:
    """What all messages of a call have in common."""

    topic: str
    keys: tuple[str, ...] = ()
    tag: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    delay_seconds: float | None = None
    key_delimiter: str | None = None
    is_json: bool = False

    def message(self, data: bytes) -> Message:
        """Returns the message that a line, or a file, becomes; UsageError if it is not as it was said to be."""
        keys, tag, properties, body = self.keys, self.tag, dict(self.properties), data
        if self.is_json:
            line = _parsed(data)
            body = line.data()
            # What brokers and consumers noted on a message is not true of its copy.
            users = {name: value for name, value in line.properties.items() if name not in names.RESERVED}
            keys, tag, properties = (*keys, *line.keys), line.tag or tag, {**users, **properties}
        elif self.key_delimiter is not None:
            key, delimiter, rest = data.partition(self.key_delimiter.encode(errors="surrogateescape"))
            if delimiter:
                keys, body = (*keys, key.decode("utf-8", "replace")), rest
        return Message(self.topic, body, tag=tag, keys=keys, properties=properties, delay_seconds=self.delay_seconds)


def _parsed(data: bytes) -> Line:
    try:
        return msgspec.json.decode(data, type=Line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise click.UsageError(f"not a message in JSON ({error}): {data[:80].decode('utf-8', 'replace')}") from None


@click.command(short_help="Send messages to TOPIC.")
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("-b", "--body", help="Send this, and nothing that is read.")
@click.option("-l", "--lines", is_flag=True, help="Each line of a file is a message; else each file is one.")
@click.option("-k", "--key", "keys", multiple=True, help="A key by which messages can be found; may be repeated.")
@click.option("-K", "--key-delimiter", help="What stands before this in a line is the key of its message.")
@click.option("-t", "--tag", help="The tag of the messages.")
@click.option("-p", "--property", "properties", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option("--order-by", help="Messages with the same go to the same queue, one after the other.")
@click.option("--delay", "delay_seconds", type=Seconds(min=0), help="Seconds until they are delivered.")
@click.option("-g", "--group", default="kerolox_send", show_default=True, help="The group of the producer.")
@click.option("--json", "is_json", is_flag=True, help="Lines are JSON: body (or bodyBase64), keys, tag, properties.")
@click.option("-v", "--verbose", is_flag=True, help="Print where each message came to lie.")
@connecting_options
def send(
    topic: str,
    files: tuple[Path, ...],
    body: str | None,
    lines: bool,
    keys: tuple[str, ...],
    key_delimiter: str | None,
    tag: str | None,
    properties: tuple[str, ...],
    order_by: str | None,
    delay_seconds: float | None,
    group: str,
    is_json: bool,
    verbose: bool,
    **connection: Any,
) -> None:
    """Send messages to TOPIC: a body, FILES, or the lines of the standard input.

    \b
    echo hello | kerolox send orders
    kerolox send orders -k 1001 -t paid -b '{"id": 1001}'
    kerolox consume orders --exit --json | kerolox send copies --json
    """
    if body is not None and files:
        raise click.UsageError("give --body or FILES, not both")
    draft = Draft(topic, keys, tag, tuple(map(_pair, properties)), delay_seconds, key_delimiter, is_json)
    if body is not None:
        # Any bytes, as the shell gave them.
        data = _given([body.encode(errors="surrogateescape")])
    else:
        data = _read(files, has_lines=lines or is_json)
    run(_send(connected(**connection), group, draft, data, order_by, verbose))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"property {text!r}: expected NAME=VALUE")
    return name, value


async def _send(
    options: Options, group: str, draft: Draft, data: AsyncIterator[bytes], order_by: str | None, is_verbose: bool
) -> None:
    # What has an order is sent one by one: neither a large body, which is compressed first, nor a topic that is just
    # being made may have a message overtake another, and when one fails, none of those behind it has been sent.
    # Of others only the first goes alone: until the route is known and the broker connected, they would overtake it.
    gate = asyncio.Semaphore(1)
    queue: MessageQueue | None = None
    begun = options.clock.monotonic()
    sent = 0

    async def one(producer: Producer, message: Message) -> None:
        nonlocal sent, queue
        # All go to the queue of the first, however many there are once the topic has a route of its own.
        result = await producer.send(message, queue=queue, order_by=order_by if queue is None else None)
        if order_by is not None:
            queue = result.queue
        # Not if it has failed, for then nothing more is to be sent.
        for _ in range(_IN_FLIGHT_MAX if order_by is None and not sent else 1):
            gate.release()
        sent += 1
        if is_verbose:
            place = f"{result.queue.broker_name}/{result.queue.queue_id}@{result.queue_offset}"
            click.echo(f"{result.message_id} {place} {result.status.value}")

    try:
        async with Producer(group, options=options) as producer, asyncio.TaskGroup() as tasks:
            async for item in data:
                await gate.acquire()
                tasks.create_task(one(producer, draft.message(item)))
    except* KeroloxError as errors:
        error = _first(errors)
        if sent:
            click.echo(f"{sent} {_messages(sent)} had been sent to {draft.topic}", err=True)
        raise error from error.__cause__
    except* (click.UsageError, OSError, UnicodeEncodeError) as errors:
        raise _first(errors) from None
    taken = options.clock.monotonic() - begun
    click.echo(f"sent {sent} {_messages(sent)} to {draft.topic} in {taken:.2f} s", err=True)


def _messages(count: int) -> str:
    return "message" if count == 1 else "messages"


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    first: BaseException = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _given(bodies: Iterable[bytes]) -> AsyncIterator[bytes]:
    for body in bodies:
        yield body


async def _read(files: tuple[Path, ...], *, has_lines: bool) -> AsyncIterator[bytes]:
    # What is typed, or comes through a pipe, is lines in any case.
    for file in files or (_TYPED,):
        if file == _TYPED:
            if sys.stdin is None:
                raise click.UsageError("there is no standard input to read: give --body, or FILES")
            async for line in lines_of(sys.stdin.buffer):
                yield line
            continue
        if not has_lines:
            yield await asyncio.to_thread(file.read_bytes)
            continue
        with file.open("rb") as stream:
            async for line in lines_of(stream):
                yield line
