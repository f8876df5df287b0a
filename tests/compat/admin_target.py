"""The target of admin tools: a broker with its own NameServer, and a client that has sent and consumed messages."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from kerolox.remoting.client import Client
from kerolox.wire.headers.broker import UpdateAndCreateTopic
from tests.apache.admin import Admin
from tests.apache.processes import Process, java_command, running, temporary_home
from tests.compat import deployment
from tests.compat.broker_commands import ADDRESS, BROKER, GROUP, MESSAGES, OFFSET_ID, ONCE, ONE_QUEUE_ID, UNIQUE
from tests.compat.commands import Step
from tests.compat.java_store import until_registered
from tests.compat.normalised_output import normalised
from tests.compat.waiting import eventually

# The version of the tools and of the client.
VERSION = "4.9.8"
TOPIC = "script"
_QUEUES = {TOPIC: 4, f"{TOPIC}_one": 1}
_ENDLESS_SECONDS = 90.0


@dataclass(slots=True)
class AdminTarget:
    """A broker with its own NameServer, and a client that has sent and consumed messages."""

    namesrv: Process
    broker: Process
    names: dict[str, str]
    client: Process | None = None

    def stop_client(self) -> None:
        """Stop the client."""
        assert self.client is not None
        self.client.terminate()

    def output(self, tool: Admin, step: Step, directory: Path) -> str:
        """Return the output of a command and the contents of the files it writes, normalised."""
        return self.normalised(self.raw_output(tool, step, directory))

    def raw_output(self, tool: Admin, step: Step, directory: Path) -> str:
        """Like `output`, but not normalised."""
        if step.arguments[0] in ONCE:
            tool.close()
            # Warms up the new JVM, whose first send might time out.
            deployment.ask(tool, self.namesrv, "topicRoute", "-t", TOPIC)
        completed = tool.run(*self.arguments_of(step), namesrv=self.namesrv.address)
        return with_files(completed.stdout + completed.stderr, directory)

    def run_endless(self, step: Step, until: str) -> str:
        """Return the first round of output of a command that never ends, normalised."""
        return self.first_round(self.endless_output(step, until), until)

    def endless_output(self, step: Step, until: str) -> str:
        """Return the unchanged output and log of a command that never ends, up to a line that matches `until`."""
        arguments = ("org.apache.rocketmq.tools.command.MQAdminStartup", *self.arguments_of(step))
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
        """Return the output up to the line that ends the first round, normalised."""
        first = re.search(rf"[\s\S]*?{until}.*", printed)
        assert first is not None
        return self.normalised(first[0])

    def arguments_of(self, step: Step) -> list[str]:
        """Return the arguments of a step, with values for the placeholders."""
        return [self.names.get(word, word) for word in step.arguments]

    def normalised(self, printed: str) -> str:
        text = deployment.normalised(printed, self.namesrv)
        text = text.replace(self.broker.address, "BROKER").replace(str(self.broker.home), "HOME")
        for name, value in self.names.items():
            text = text.replace(value, name.strip("{}").upper())
        return normalised(text)


def with_files(printed: str, directory: Path) -> str:
    """Return the output and the contents of the written files, and deletes the files."""
    for file in sorted(directory.iterdir()):
        printed = f"{printed.rstrip()}\n{file.name}:\n{file.read_text()}"
        file.unlink()
    return printed


async def make_topics(address: str, namesrv: str) -> None:
    """Create the topics, and return when they are registered: a Java broker may need 10 s for that."""
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
            await until_registered(client, namesrv, topic)


def start_client(
    namesrv: Process, broker: Process, home: Path, stack: contextlib.ExitStack, names: dict[str, str]
) -> AdminTarget:
    """Start a Java client of the broker; return when it has sent and consumed its messages."""
    arguments = (namesrv.address, TOPIC, GROUP, BROKER, str(MESSAGES))
    client = stack.enter_context(running(java_command(VERSION, home, "Attend.java", *arguments), home))
    client.wait_for("attending")
    _, unique_key, offset_id, one_queue_id = client.wait_for("sent ").split()
    known = {ADDRESS: broker.address, UNIQUE: unique_key, OFFSET_ID: offset_id, ONE_QUEUE_ID: one_queue_id}
    return AdminTarget(namesrv, broker, known | names, client)
