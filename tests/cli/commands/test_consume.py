"""`kerolox consume`: what it prints, and which offsets it commits."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from kerolox.admin.sync import AdminClient
from kerolox.cli.app import main
from kerolox.client.sync import Message, Producer
from kerolox.testing.plugin import RunningCluster
from kerolox.wire.bodies.queues import MessageQueue

TOPIC = "orders"
QUEUE = MessageQueue("broker-a", 0, TOPIC)
COUNT = 5


@pytest.fixture(scope="module")
def admin(running: RunningCluster) -> Iterator[AdminClient]:
    with AdminClient(namesrv_addr=running.namesrv_addr) as admin:
        yield admin


@pytest.fixture(scope="module", autouse=True)
def sent(running: RunningCluster, admin: AdminClient) -> None:
    admin.topics.create(TOPIC, read_queues=1, write_queues=1)
    with Producer("senders", namesrv_addr=running.namesrv_addr) as producer:
        for number in range(COUNT):
            tag = "odd" if number % 2 else "even"
            producer.send(Message(TOPIC, b"body %d" % number, tag=tag, keys=[f"key{number}"]))


def consume(running: RunningCluster, *arguments: str) -> Result:
    result = CliRunner().invoke(main, ["consume", *arguments, "-n", running.namesrv_addr])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_existing_messages_are_printed_line_by_line(running: RunningCluster) -> None:
    assert consume(running, TOPIC, "--exit").stdout.splitlines() == [f"body {number}" for number in range(COUNT)]


def test_a_format_selects_the_fields(running: RunningCluster) -> None:
    printed = consume(running, TOPIC, "-e", "-c", "1", "-f", r"%t/%b/%p@%o %k %g %S %%: %s\n").stdout

    assert printed == "orders/broker-a/0@0 key0 even 6 %: body 0\n"


def test_messages_are_filtered_by_tag_and_time(running: RunningCluster) -> None:
    assert consume(running, TOPIC, "-e", "-t", "odd").stdout.splitlines() == ["body 1", "body 3"]
    assert consume(running, TOPIC, "-e", "--from", "2100-01-01T00:00:00").stdout == ""
    assert consume(running, TOPIC, "-e", "--from", "last").stdout == ""


def test_json_can_be_sent_again(running: RunningCluster, admin: AdminClient) -> None:
    printed = consume(running, TOPIC, "-e", "--json").stdout
    admin.topics.create("copies", read_queues=1, write_queues=1)

    CliRunner().invoke(main, ["send", "copies", "--json", "-n", running.namesrv_addr], input=printed)

    assert json.loads(printed.splitlines()[0])["keys"] == ["key0"]
    copies = list(admin.messages.read_topic("copies"))
    assert sorted((copy.body, copy.tag) for copy in copies) == [
        (b"body %d" % number, "odd" if number % 2 else "even") for number in range(COUNT)
    ]


def test_without_a_group_it_stops_after_count_and_commits_nothing(running: RunningCluster, admin: AdminClient) -> None:
    printed = consume(running, TOPIC, "-c", "3").stdout

    assert printed.splitlines() == ["body 0", "body 1", "body 2"]
    assert admin.offsets.committed("TOOLS_CONSUMER", QUEUE) is None


def test_a_start_time_out_of_range_is_refused(running: RunningCluster) -> None:
    result = consume(running, TOPIC, "-g", "billing", "--from", "99999999999999999")

    assert result.exit_code == 2
    assert "--from 99999999999999999 is out of the range of dates" in result.stderr


def test_a_group_continues_from_its_committed_offset(running: RunningCluster, admin: AdminClient) -> None:
    admin.groups.create("billing")

    first = consume(running, TOPIC, "-g", "billing", "-c", "2").stdout
    rest = consume(running, TOPIC, "-g", "billing", "-e").stdout

    assert first.splitlines() == ["body 0", "body 1"]
    assert rest.splitlines() == ["body 2", "body 3", "body 4"]
    assert admin.offsets.committed("billing", QUEUE) == COUNT


@pytest.mark.parametrize("group", [(), ("-g", "billing")])
@pytest.mark.parametrize("ending", [(), ("-e",), ("-e", "--from", "last")])
def test_an_unknown_topic_is_reported(running: RunningCluster, group: tuple[str, ...], ending: tuple[str, ...]) -> None:
    result = consume(running, "nothing", *group, *ending)

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "nothing" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"), [(("-f", "%q"), "unknown %q; known are"), (("--from", "noon"), "is not a time")]
)
def test_an_invalid_format_or_time_is_reported(running: RunningCluster, arguments: tuple[str, ...], error: str) -> None:
    result = consume(running, TOPIC, *arguments)

    assert result.exit_code == 2
    assert error in result.stderr


def test_a_terminal_gets_escaped_text_and_a_pipe_gets_the_bytes(running: RunningCluster) -> None:
    body = b"\x1b[2Jbody\nline\xff \xe2\x80\xae"
    with Producer("senders", namesrv_addr=running.namesrv_addr) as producer:
        producer.send(Message("hostile", body, tag="\x1b]0;title\x07\nforged"))
    command = [sys.executable, "-c", "from kerolox.cli.app import main; main()", "consume", "hostile", "-e"]
    command += ["-n", running.namesrv_addr, "-f", "%g|%s"]

    terminal, end = pty.openpty()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=end, check=True)
    os.close(end)
    output = os.read(terminal, 10_000)
    os.close(terminal)
    piped = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout

    assert output == rb"\x1b]0;title\x07\x0aforged|\x1b[2Jbody" + b"\r\n" + rb"line\xff \u202e"
    assert piped == b"\x1b]0;title\x07\nforged|" + body


def test_json_is_escaped_without_changing_its_value(running: RunningCluster) -> None:
    with Producer("senders", namesrv_addr=running.namesrv_addr) as producer:
        producer.send(Message("bidi", "\u202e\x9b\x7f".encode()))

    printed = consume(running, "bidi", "-e", "--json").stdout

    assert printed.isascii()
    assert json.loads(printed)["body"] == "\u202e\x9b\x7f"
