"""The event loops that tests of servers run on."""

import asyncio
from collections.abc import Callable

from kerolox.runtime.event_loop import ServerLoop

Loops = dict[str, Callable[[], asyncio.AbstractEventLoop]]

# The event loop of `kerolox broker` and `kerolox namesrv`.
SERVER: Loops = {"server": ServerLoop}
# And the default one, which user programs have.
BOTH: Loops = {"asyncio": asyncio.SelectorEventLoop, **SERVER}
