"""The event loops that tests of servers run on."""

import asyncio
from collections.abc import Callable

from kerolox.runtime.server_loop import ServerLoop

Loops = dict[str, Callable[[], asyncio.AbstractEventLoop]]

# What `kerolox broker` and `kerolox namesrv` run on.
SERVER: Loops = {"server": ServerLoop}
# And what a program of a user's has.
BOTH: Loops = {"asyncio": asyncio.SelectorEventLoop, **SERVER}
