"""The page of Spark pipelines, read from the progress file of each."""

import os
from pathlib import Path

import msgspec
from starlette.responses import Response

from kerolox.dashboard.http.page import Page
from kerolox.runtime.threads import in_thread

FILES_MAX = 200
_FILE_SIZE_MAX = 256 * 1024
# A running pipeline updates its file every second; after this time without an update it has probably died.
_STALE_MILLIS = 30_000


class Flow(msgspec.Struct, rename="camel"):
    name: str
    batch: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    batch_millis: int = 0
    updated: int = 0


class Pipeline(msgspec.Struct, rename="camel"):
    name: str
    state: str
    file: str | None = None
    pid: int = 0
    master: str = ""
    started: int = 0
    updated: int = 0
    error: str | None = None
    flows: list[Flow] = []

    @property
    def is_running(self) -> bool:
        return self.state in ("starting", "running")

    @property
    def rows(self) -> int:
        return sum(flow.rows for flow in self.flows)


async def pipelines_page(page: Page) -> Response:
    folder = page.context.options.pipelines
    found, problems = await in_thread(read, folder)
    now = page.context.options.clock.millis()
    stale = {it.name for it in found if it.is_running and now - it.updated > _STALE_MILLIS}
    return page.render("pipelines.html", pipelines=found, problems=problems, folder=folder, stale=stale, now=now)


def read(folder: Path) -> tuple[list[Pipeline], list[str]]:
    """Return the pipelines, running ones first, and a message for each file that cannot be read."""
    found: list[Pipeline] = []
    problems: list[str] = []
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".json") and entry.is_file())
    except FileNotFoundError:
        names = []
    except OSError as error:
        return [], [f"{folder} cannot be read: {error.strerror}."]
    for name in names[:FILES_MAX]:
        try:
            with (folder / name).open("rb") as file:
                data = file.read(_FILE_SIZE_MAX + 1)
            if len(data) > _FILE_SIZE_MAX:
                problems.append(f"{name} is not read: it has more than {_FILE_SIZE_MAX} bytes.")
                continue
            found.append(msgspec.json.decode(data, type=Pipeline))
        except FileNotFoundError:
            continue
        except (OSError, msgspec.MsgspecError) as error:
            problems.append(f"{name} cannot be read: {error}.")
    if len(names) > FILES_MAX:
        problems.append(f"There are {len(names)} files, of which {FILES_MAX} are shown.")
    return sorted(found, key=lambda it: (not it.is_running, -it.started)), problems
