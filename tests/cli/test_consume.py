"""`kerolox consume`: what is printed, and what is touched."""

import json
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


def test_all_that_is_there_is_printed_line_by_line(running: RunningCluster) -> None:
    assert consume(running, TOPIC, "--exit").stdout.splitlines() == [f"body {number}" for number in range(COUNT)]


def test_a_format_says_what_is_printed(running: RunningCluster) -> None:
    printed = consume(running, TOPIC, "-e", "-c", "1", "-f", r"%t/%b/%p@%o %k %g %S %%: %s\n").stdout

    assert printed == "orders/broker-a/0@0 key0 even 6 %: body 0\n"


def test_messages_are_chosen_by_tag_and_time(running: RunningCluster) -> None:
    assert consume(running, TOPIC, "-e", "-t", "odd").stdout.splitlines() == ["body 1", "body 3"]
    assert consume(running, TOPIC, "-e", "--from", "2100-01-01T00:00:00").stdout == ""
    assert consume(running, TOPIC, "-e", "--from", "last").stdout == ""


def test_json_is_what_send_takes(running: RunningCluster, admin: AdminClient) -> None:
    printed = consume(running, TOPIC, "-e", "--json").stdout
    admin.topics.create("copies", read_queues=1, write_queues=1)

    CliRunner().invoke(main, ["send", "copies", "--json", "-n", running.namesrv_addr], input=printed)

    assert json.loads(printed.splitlines()[0])["keys"] == ["key0"]
    copies = list(admin.messages.read_topic("copies"))
    assert sorted((copy.body, copy.tag) for copy in copies) == [
        (b"body %d" % number, "odd" if number % 2 else "even") for number in range(COUNT)
    ]


def test_an_onlooker_reads_without_end_until_it_has_enough(running: RunningCluster, admin: AdminClient) -> None:
    printed = consume(running, TOPIC, "-c", "3").stdout

    assert printed.splitlines() == ["body 0", "body 1", "body 2"]
    assert admin.offsets.committed("TOOLS_CONSUMER", QUEUE) is None


def test_a_time_that_no_calendar_has_is_refused(running: RunningCluster) -> None:
    result = consume(running, TOPIC, "-g", "billing", "--from", "99999999999999999")

    assert result.exit_code == 2
    assert "--from 99999999999999999 is a time that no calendar has" in result.stderr


def test_a_group_goes_on_where_it_was(running: RunningCluster, admin: AdminClient) -> None:
    admin.groups.create("billing")

    first = consume(running, TOPIC, "-g", "billing", "-c", "2").stdout
    rest = consume(running, TOPIC, "-g", "billing", "-e").stdout

    assert first.splitlines() == ["body 0", "body 1"]
    assert rest.splitlines() == ["body 2", "body 3", "body 4"]
    assert admin.offsets.committed("billing", QUEUE) == COUNT


@pytest.mark.parametrize("group", [(), ("-g", "billing")])
@pytest.mark.parametrize("ending", [(), ("-e",), ("-e", "--from", "last")])
def test_a_topic_that_is_not_there_is_told(
    running: RunningCluster, group: tuple[str, ...], ending: tuple[str, ...]
) -> None:
    result = consume(running, "nothing", *group, *ending)

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "nothing" in result.stderr


@pytest.mark.parametrize(("arguments", "told"), [(("-f", "%q"), "%q is not known"), (("--from", "noon"), "is no time")])
def test_what_makes_no_sense_is_told(running: RunningCluster, arguments: tuple[str, ...], told: str) -> None:
    result = consume(running, TOPIC, *arguments)

    assert result.exit_code == 2
    assert told in result.stderr
