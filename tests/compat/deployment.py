"""Brokers that register with Apache's NameServers and with ours, so that all have the same routes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.apache import VERSIONS, servers
from tests.apache.admin import Admin, admin
from tests.apache.processes import Process
from tests.compat import name_servers
from tests.compat.waiting import until_listed

CLUSTER = "DefaultCluster"
BROKER_NAMES = {"4.9.8": "broker-four", "5.5.0": "broker-five"}


@dataclass(frozen=True, slots=True)
class Deployment:
    """Servers and tools by version: Apache's NameServer (reference), ours (subject), and a broker of both."""

    references: dict[str, Process]
    subjects: dict[str, Process]
    brokers: dict[str, Process]
    admins: dict[str, Admin]

    def ask_reference(self, version: str, *arguments: str) -> str:
        """Return the normalised mqadmin output for Apache's NameServer."""
        return self._ask(version, self.references[version], arguments)

    def ask_subject(self, version: str, *arguments: str) -> str:
        """Return the normalised mqadmin output for our NameServer."""
        return self._ask(version, self.subjects[version], arguments)

    def _ask(self, version: str, server: Process, arguments: tuple[str, ...]) -> str:
        return ask(self.admins[version], server, *arguments)


def ask(tool: Admin, server: Process, *arguments: str) -> str:
    """Return the normalised output of a command on both streams."""
    completed = tool.run(*arguments, namesrv=server.address)
    return normalised(completed.stdout + completed.stderr, server)


def normalised(printed: str, server: Process) -> str:
    """Replace the server's own address and home, rates and ages in the output, and removes padding."""
    text = printed.replace(server.address, "NAMESRV").replace(str(server.home), "HOME")
    text = re.sub(r"(?<![\d.])\d+\.\d+(?![\d.])", "#.#", text)
    text = re.sub(r"\(\d+,\d+ms(\|\d+,\d+ms)?\)", "(load)", text)
    return re.sub(r" +", " ", text).strip()


@contextlib.contextmanager
def open_deployment(versions: Sequence[str] = VERSIONS) -> Iterator[Deployment]:
    """Start all processes, concurrently where possible."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(versions)) as threads:

        def start_all(start: Callable[[str], AbstractContextManager[Process]]) -> dict[str, Process]:
            entered = threads.map(lambda version: stack.enter_context(start(version)), versions)
            return dict(zip(versions, entered, strict=True))

        references = start_all(servers.name_server)
        subjects = start_all(name_servers.subject)
        known = ";".join(server.address for server in (*references.values(), *subjects.values()))
        brokers = start_all(lambda version: servers.broker(version, known, name=BROKER_NAMES[version], cluster=CLUSTER))
        for server in (*references.values(), *subjects.values()):
            asyncio.run(until_listed(server.address, *(BROKER_NAMES[version] for version in versions)))
        admins = {version: stack.enter_context(admin(version)) for version in versions}
        yield Deployment(references, subjects, brokers, admins)
