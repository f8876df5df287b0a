"""A broker with its own NameServer and a client that has sent and consumed, as the target of admin tools."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from kerolox.remoting.client import Client
from kerolox.wire.headers.broker import UpdateAndCreateTopic
from tests.apache.admin import Admin
from tests.apache.processes import Process, java_command, running, temporary_home
from tests.compat import stage
from tests.compat.broker_commands import ADDRESS, ALONE, BROKER, GROUP, MESSAGES, ONCE, PLACE, UNIQUE
from tests.compat.commands import Step
from tests.compat.printed import normalised
from tests.compat.waiting import eventually

# Of the tools and of the client.
VERSION = "4.9.8"
TOPIC = "script"
_QUEUES = {TOPIC: 4, f"{TOPIC}_one": 1}
_ENDLESS_SECONDS = 90.0


@dataclass(slots=True)
class Side:
    """A broker with its own NameServer, and a client that has sent and consumed messages."""

    namesrv: Process
    broker: Process
    names: dict[str, str]
    client: Process | None = None

    def leave(self) -> None:
        """Stops its client."""
        assert self.client is not None
        self.client.terminate()

    def ask(self, tool: Admin, step: Step, directory: Path) -> str:
        """Returns the output of a command and the files it writes, normalised."""
        return self.normalised(self.run(tool, step, directory))

    def run(self, tool: Admin, step: Step, directory: Path) -> str:
        """Like `ask`, but not normalised."""
        if step.arguments[0] in ONCE:
            tool.close()
            # A JVM that has just started may exceed the timeout of a send.
            stage.ask(tool, self.namesrv, "topicRoute", "-t", TOPIC)
        completed = tool.run(*self.filled(step), namesrv=self.namesrv.address)
        return with_files(completed.stdout + completed.stderr, directory)

    def run_endless(self, step: Step, until: str) -> str:
        """Returns the first round of output of a command that never ends, normalised."""
        return self.first_round(self.endless(step, until), until)

    def endless(self, step: Step, until: str) -> str:
        """Returns the unchanged output and log of a command that never ends, at least up to a line with `until`."""
        arguments = ("org.apache.rocketmq.tools.command.MQAdminStartup", *self.filled(step))
        with temporary_home() as home:
            command = java_command(VERSION, home, *arguments, "-n", self.namesrv.address)
            with running(command, home) as process:
                log = home / "rocketmq.log"

                def printed() -> str:
                    logged = log.read_text() if log.exists() else ""
                    return process.output() + "".join(re.findall(r"\[MONITOR\].*\n", logged))

                eventually(lambda: re.search(until, printed()) is not None, _ENDLESS_SECONDS, f"round of {step.title}")
                return printed()

    def first_round(self, printed: str, until: str) -> str:
        """Returns the output up to the line that ends the first round, normalised."""
        first = re.search(rf"[\s\S]*?{until}.*", printed)
        assert first is not None
        return self.normalised(first[0])

    def filled(self, step: Step) -> list[str]:
        return [self.names.get(word, word) for word in step.arguments]

    def normalised(self, printed: str) -> str:
        text = stage.normalised(printed, self.namesrv)
        text = text.replace(self.broker.address, "BROKER").replace(str(self.broker.home), "HOME")
        for name, value in self.names.items():
            text = text.replace(value, name.strip("{}").upper())
        return normalised(text)


def with_files(printed: str, directory: Path) -> str:
    """Returns the output and the contents of the written files, and deletes the files."""
    for file in sorted(directory.iterdir()):
        printed = f"{printed.rstrip()}\n{file.name}:\n{file.read_text()}"
        file.unlink()
    return printed


async def make_topics(address: str) -> None:
    async with Client() as client:
        for topic, queues in _QUEUES.items():
            request = UpdateAndCreateTopic(
                topic=topic,
                default_topic="TBW102",
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=6,
                topic_filter_type="SINGLE_TAG",
                topic_sys_flag=0,
            )
            await client.call(address, request, timeout_seconds=30)


def attend(namesrv: Process, broker: Process, home: Path, stack: contextlib.ExitStack, names: dict[str, str]) -> Side:
    arguments = (namesrv.address, TOPIC, GROUP, BROKER, str(MESSAGES))
    client = stack.enter_context(running(java_command(VERSION, home, "Attend.java", *arguments), home))
    client.wait_for("attending")
    _, unique, place, alone = client.wait_for("sent ").split()
    known = {ADDRESS: broker.address, UNIQUE: unique, PLACE: place, ALONE: alone}
    return Side(namesrv, broker, known | names, client)
