"""`kerolox send`: messages from bodies, lines, files and JSON."""

import base64
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kerolox.admin.sync import AdminClient
from kerolox.cli.app import main
from kerolox.client.messages import Received
from kerolox.local.processes import our_command
from kerolox.testing.plugin import RunningCluster
from tests.cli.ups import kerolox


@pytest.fixture(scope="module")
def admin(running: RunningCluster) -> Iterator[AdminClient]:
    with AdminClient(namesrv_addr=running.namesrv_addr) as admin:
        yield admin


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    name = request.node.name[:100].replace("[", "_").replace("]", "_")
    admin.topics.create(name, read_queues=1, write_queues=1)
    return str(name)


def send(running: RunningCluster, *arguments: str, typed: str | None = None) -> Result:
    result = CliRunner().invoke(main, ["send", *arguments, "-n", running.namesrv_addr], input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def stored(admin: AdminClient, topic: str) -> list[Received]:
    return list(admin.messages.read_topic(topic))


def test_each_line_of_stdin_is_a_message(running: RunningCluster, admin: AdminClient, topic: str) -> None:
    result = send(running, topic, "-t", "paid", "-k", "all", typed="one\ntwo\n\nlast")

    found = stored(admin, topic)
    assert [message.body for message in found] == [b"one", b"two", b"last"]
    assert {(message.tag, *message.keys) for message in found} == {("paid", "all")}
    assert result.stdout == ""
    assert result.stderr.startswith(f"sent 3 messages to {topic} in ")


def test_a_dash_stands_for_stdin(running: RunningCluster, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "first"
    file.write_bytes(b"from a file\nwith two lines")

    send(running, topic, str(file), "-", typed="one\ntwo\n")

    bodies = [message.body for message in stored(admin, topic)]
    assert sorted(bodies) == [b"from a file\nwith two lines", b"one", b"two"]


def test_a_body_is_sent_with_properties_and_its_position_is_printed(
    running: RunningCluster, admin: AdminClient, topic: str
) -> None:
    result = send(running, topic, "-b", "hello", "-p", "colour=blue", "-p", "size=a=b", "-v")

    (message,) = stored(admin, topic)
    assert (message.body, message.properties["colour"], message.properties["size"]) == (b"hello", "blue", "a=b")
    assert result.stdout == f"{message.message_id} broker-a/0@0 SEND_OK\n"


def test_a_file_is_one_message_or_one_per_line(
    running: RunningCluster, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")

    send(running, topic, str(file))
    send(running, topic, "-l", str(file))

    assert [message.body for message in stored(admin, topic)] == [b"one\ntwo\n", b"one", b"two"]


def test_a_delimiter_separates_the_key_from_the_body(running: RunningCluster, admin: AdminClient, topic: str) -> None:
    send(running, topic, "-K", ":", typed="a:one:1\nno key\n")

    assert [(message.keys, message.body) for message in stored(admin, topic)] == [(["a"], b"one:1"), ([], b"no key")]


def test_json_has_all_fields_of_a_message(running: RunningCluster, admin: AdminClient, topic: str) -> None:
    line = {"body": "hello", "keys": ["a", "b"], "tag": "paid", "properties": {"colour": "blue"}, "offset": 7}

    send(running, topic, "--json", typed=json.dumps(line) + "\n")

    (message,) = stored(admin, topic)
    assert (message.body, message.keys, message.tag) == (b"hello", ["a", "b"], "paid")
    assert message.properties["colour"] == "blue"


def test_a_copy_has_every_byte_and_no_reserved_properties(
    running: RunningCluster, admin: AdminClient, topic: str
) -> None:
    noted = {"TIMER_DELAY_MS": "1000", "RETRY_TOPIC": "orders", "KEYS": "a", "colour": "blue"}
    line = {"bodyBase64": base64.b64encode(b"\xff\0\n").decode(), "keys": ["a"], "properties": noted}

    assert send(running, topic, "--json", typed=json.dumps(line) + "\n").exit_code == 0

    (message,) = stored(admin, topic)
    assert (message.body, message.keys, message.properties["colour"]) == (b"\xff\0\n", ["a"], "blue")
    assert not {"TIMER_DELAY_MS", "RETRY_TOPIC"} & set(message.properties)


@pytest.mark.parametrize(
    ("arguments", "typed", "error"),
    [
        (("--json",), "no json\n", "not a JSON message"),
        (("--json",), "{}\n", "it needs either `body` or"),
        (("--json",), '{"body": "", "bodyBase64": "aGVsbG8="}\n', "it needs either `body` or"),
        (("--json",), '{"bodyBase64": "?"}\n', "not a JSON message"),
        (("-p", "colour"), "", "expected NAME=VALUE"),
        (("-b", "x", __file__), "", "give --body or FILES, not both"),
        (("/nowhere",), "", "/nowhere"),
    ],
)
def test_invalid_input_is_reported(running: RunningCluster, arguments: tuple[str, ...], typed: str, error: str) -> None:
    result = send(running, "anything", *arguments, typed=typed)

    assert result.exit_code == 2
    assert error in result.stderr


def test_a_closed_pipe_ends_it_silently(running: RunningCluster, topic: str) -> None:
    source, target = os.pipe()
    os.close(source)
    command = our_command("send", topic, "-v", "-b", "x", "-n", running.namesrv_addr)

    result = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, text=True, check=False)

    os.close(target)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("ending", ["Ctrl-C", "error"])
def test_waiting_for_stdin_does_not_delay_the_exit(running: RunningCluster, topic: str, ending: str) -> None:
    namesrv_addr = running.namesrv_addr if ending == "Ctrl-C" else "127.0.0.1:1"
    command = our_command("send", topic, "-v", "-n", namesrv_addr)
    pipe = subprocess.PIPE

    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("one\n")
        process.stdin.flush()
        if ending == "Ctrl-C":
            assert process.stdout.readline().endswith(" SEND_OK\n")
            process.send_signal(signal.SIGINT)

        assert process.wait(30) == (130 if ending == "Ctrl-C" else 1)
        error = process.stderr.read()

    assert error == "" if ending == "Ctrl-C" else "connection refused" in error
    assert "Fatal" not in error


def test_a_body_may_be_arbitrary_bytes(running: RunningCluster, admin: AdminClient, topic: str) -> None:
    command: list[str | bytes] = [*our_command("send", topic, "-n", running.namesrv_addr, "-b"), b"\xff\xfe"]

    subprocess.run(command, check=True, capture_output=True)

    assert [message.body for message in stored(admin, topic)] == [b"\xff\xfe"]


@pytest.mark.parametrize("flag", ["-t", "-k"])
def test_an_argument_that_is_not_utf_8_is_one_line_of_error(running: RunningCluster, topic: str, flag: str) -> None:
    command: list[str | bytes] = [*our_command("send", topic, "-n", running.namesrv_addr, "-b", "x", flag), b"\xff"]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "is not valid UTF-8" in result.stderr


def test_a_closed_stdin_is_reported(running: RunningCluster) -> None:
    command = our_command("send", "orders", "-n", running.namesrv_addr)

    result = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *command], capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr.splitlines()[-1]) == (
        2,
        "Error: there is no standard input: give --body or FILES",
    )


def test_an_invalid_topic_name_is_reported_in_one_line(running: RunningCluster) -> None:
    result = send(running, "no good", "-b", "x")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: topic 'no good' is not a valid name")
    assert result.stderr.count("\n") == 1


def test_an_unreachable_name_server_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    result = kerolox(tmp_path, "send", "orders", "-b", "x", "-n", f"127.0.0.1:{port}")

    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert f"cannot connect to 127.0.0.1:{port}" in result.stderr
    assert result.stderr.endswith("is it running? Give NameServers with -n or NAMESRV_ADDR; `kerolox up` starts one\n")


@pytest.mark.parametrize("attempt", range(3))
def test_ordered_lines_stay_in_order_while_their_topic_is_created(tmp_path: Path, attempt: int) -> None:
    """One of two brokers creates the topic, so its queues are not those from which the first one was chosen."""
    lines = [b"%d" % number for number in range(50)]
    # Large enough to be compressed first.
    lines[10] = b"10" + b"x" * 10_000
    with cluster(tmp_path) as namesrv:
        typed = b"\n".join(lines).decode()
        result = CliRunner().invoke(
            main, ["send", f"new-{attempt}", "--order-by", f"k{attempt}", "-v", "-n", namesrv], input=typed
        )
        with AdminClient(namesrv_addr=namesrv) as admin:
            found = [message.body for message in admin.messages.read_topic(f"new-{attempt}")]

    queues = {line.split()[1].partition("@")[0] for line in result.stdout.splitlines()}
    assert (result.exit_code, len(queues)) == (0, 1)
    assert found == lines


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """Run two brokers without topics."""
    running = RunningCluster(directory, brokers=2)
    with running:
        yield running.namesrv_addr


def test_no_ordered_line_is_sent_after_one_that_failed(running: RunningCluster, admin: AdminClient, topic: str) -> None:
    result = send(running, topic, "--order-by", "k", typed="one\n" + "x" * 5_000_000 + "\nthree\n")

    assert result.exit_code == 1
    assert result.stderr.startswith(f"1 message had been sent to {topic}\nError: ")
    assert [message.body for message in stored(admin, topic)] == [b"one"]
