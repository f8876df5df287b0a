"""`kerolox send`: sends lines, files or JSON as messages."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from kerolox.cli.admin.java_times import Seconds
from kerolox.cli.client_options import connection_flags, run, to_client_options
from kerolox.cli.echo import echo_line
from kerolox.client import Message, Producer
from kerolox.client.options import Options
from kerolox.errors import KeroloxError
from kerolox.message import property_names
from kerolox.wire.bodies.queues import MessageQueue

_IN_FLIGHT_MAX = 256
_STDIN = Path("-")
_READ_SIZE = 1 << 16


class JsonMessage(msgspec.Struct):
    """A message in JSON, as `kerolox consume --json` prints it; other fields are ignored."""

    body: str | None = None
    body_base64: bytes | None = msgspec.field(name="bodyBase64", default=None)
    keys: list[str] = []
    tag: str | None = None
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        if (self.body is None) == (self.body_base64 is None):
            raise ValueError("it needs either `body` or, for binary data, `bodyBase64`")

    def data(self) -> bytes:
        return self.body_base64 or (self.body or "").encode()


@dataclass(frozen=True, slots=True)
class MessageTemplate:
    """The arguments that apply to all messages of a call."""

    topic: str
    keys: tuple[str, ...] = ()
    tag: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    delay_seconds: float | None = None
    key_delimiter: str | None = None
    is_json: bool = False

    def message(self, data: bytes) -> Message:
        """Return the message for a line or a file; raise UsageError if it should be JSON and is not."""
        keys, tag, properties, body = self.keys, self.tag, dict(self.properties), data
        if self.is_json:
            line = _parse(data)
            body = line.data()
            # Reserved properties were set by brokers and consumers for the original message, not for this copy.
            own = {name: value for name, value in line.properties.items() if name not in property_names.RESERVED}
            keys, tag, properties = (*keys, *line.keys), line.tag or tag, {**own, **properties}
        elif self.key_delimiter is not None:
            key, delimiter, rest = data.partition(self.key_delimiter.encode(errors="surrogateescape"))
            if delimiter:
                keys, body = (*keys, key.decode("utf-8", "replace")), rest
        return Message(self.topic, body, tag=tag, keys=keys, properties=properties, delay_seconds=self.delay_seconds)


def _parse(data: bytes) -> JsonMessage:
    try:
        return msgspec.json.decode(data, type=JsonMessage)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise click.UsageError(f"not a JSON message ({error}): {data[:80].decode('utf-8', 'replace')}") from None


@click.command(short_help="Send messages to TOPIC.")
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("-b", "--body", help="Body of a single message; nothing is read.")
@click.option("-l", "--lines", is_flag=True, help="Send each line of FILES as a message; without it, each file is one.")
@click.option("-k", "--key", "keys", multiple=True, help="Key of the messages; may be repeated.")
@click.option("-K", "--key-delimiter", help="The text before this delimiter in a line is the key of its message.")
@click.option("-t", "--tag", help="Tag of the messages.")
@click.option(
    "-p",
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Property of the messages; may be repeated.",
)
@click.option("--order-by", help="Sharding key: all messages go to the queue it selects, strictly in order.")
@click.option("--delay", "delay_seconds", type=Seconds(min=0), help="Deliver the messages after this many seconds.")
@click.option("-g", "--group", default="kerolox_send", show_default=True, help="Producer group.")
@click.option("--json", "is_json", is_flag=True, help="Lines are JSON: body (or bodyBase64), keys, tag, properties.")
@click.option("-v", "--verbose", is_flag=True, help="Print the queue and offset of each message.")
@connection_flags
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
    """Send messages to TOPIC: a body, FILES, or the lines of standard input.

    \b
    echo hello | kerolox send orders
    kerolox send orders -k 1001 -t paid -b '{"id": 1001}'
    kerolox consume orders --exit --json | kerolox send copies --json
    """
    if body is not None and files:
        raise click.UsageError("give --body or FILES, not both")
    template = MessageTemplate(topic, keys, tag, tuple(map(_pair, properties)), delay_seconds, key_delimiter, is_json)
    if body is not None:
        # Restores the bytes that the shell passed, also if they are not UTF-8.
        data = _single(body.encode(errors="surrogateescape"))
    else:
        data = _read(files, has_lines=lines or is_json)
    run(_send(to_client_options(**connection), group, template, data, order_by, verbose))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"property {text!r}: expected NAME=VALUE")
    return name, value


async def _send(
    options: Options,
    group: str,
    template: MessageTemplate,
    data: AsyncIterator[bytes],
    order_by: str | None,
    is_verbose: bool,
) -> None:
    # `slots` limits the sends in flight.
    #
    # Ordered messages are sent one at a time: otherwise one message could overtake another whose large body is being
    # compressed, or that waits for its topic to be created; and if one fails, none of the later ones has been sent.
    # Unordered messages start with one slot, too: until the route is known and the broker is connected, later messages
    # would overtake the first. After that there are _IN_FLIGHT_MAX slots.
    slots = asyncio.Semaphore(1)
    queue: MessageQueue | None = None
    started = options.clock.monotonic()
    sent = 0

    async def send_one(producer: Producer, message: Message) -> None:
        nonlocal sent, queue
        # All go to the queue of the first: the number of queues changes when an auto-created topic gets its own route.
        result = await producer.send(message, queue=queue, order_by=order_by if queue is None else None)
        if order_by is not None:
            queue = result.queue
        # After a failure nothing is released, so nothing more is sent.
        for _ in range(_IN_FLIGHT_MAX if order_by is None and not sent else 1):
            slots.release()
        sent += 1
        if is_verbose:
            position = f"{result.queue.broker_name}/{result.queue.queue_id}@{result.queue_offset}"
            echo_line(f"{result.message_id} {position} {result.status.value}")

    failure: BaseException | None = None
    try:
        async with Producer(group, options=options) as producer, asyncio.TaskGroup() as tasks:
            async for item in data:
                await slots.acquire()
                tasks.create_task(send_one(producer, template.message(item)))
    except* KeroloxError as errors:
        failure = _first(errors)
        if sent:
            click.echo(f"{_message_count(sent)} had been sent to {template.topic}", err=True)
    except* (click.UsageError, OSError, UnicodeEncodeError) as errors:
        failure = failure or _first(errors)
    # Raised here because Python before 3.11.4 wraps what is raised inside `except*` into a group.
    if failure is not None:
        raise failure from failure.__cause__
    taken = options.clock.monotonic() - started
    click.echo(f"sent {_message_count(sent)} to {template.topic} in {taken:.2f} s", err=True)


def _message_count(count: int) -> str:
    return f"{count} {'message' if count == 1 else 'messages'}"


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    first: BaseException = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


async def _single(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _read(files: tuple[Path, ...], *, has_lines: bool) -> AsyncIterator[bytes]:
    # Standard input is always read by lines.
    for file in files or (_STDIN,):
        if file == _STDIN:
            if sys.stdin is None:
                raise click.UsageError("there is no standard input: give --body or FILES")
            async for line in _read_lines(sys.stdin.buffer):
                yield line
            continue
        if not has_lines:
            yield await asyncio.to_thread(file.read_bytes)
            continue
        with file.open("rb") as stream:
            async for line in _read_lines(stream):
                yield line


async def _read_lines(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yield lines as they arrive, without line ends. Empty lines are skipped, since a message needs a body."""
    # A thread that reads from a buffered stream holds its lock, and Python cannot exit while it does. Read the raw
    # stream instead.
    source = getattr(stream, "raw", stream)
    rest = b""
    while chunk := await _read_in_thread(lambda: source.read(_READ_SIZE)):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in filter(None, lines):
            yield line
    if rest:
        yield rest


async def _read_in_thread(read: Callable[[], bytes]) -> bytes:
    """Read in a daemon thread, which nothing joins: the next line may never be typed."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bytes] = loop.create_future()

    def deliver(data: bytes, error: OSError | None) -> None:
        if result.cancelled():
            return
        if error is None:
            result.set_result(data)
        else:
            result.set_exception(error)

    def work() -> None:
        data, failure = b"", None
        try:
            data = read()
        except OSError as error:
            failure = error
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, data, failure)

    threading.Thread(target=work, daemon=True).start()
    return await result
