"""notebook.py CELL...: runs the cells one after the other in a notebook kernel, and prints their output.

The argument "interrupt" is not a cell: the next cell is interrupted as soon as it prints something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_client.manager import KernelManager, start_new_kernel  # type: ignore[import-not-found]

TIMEOUT_SECONDS = 60


def main(cells: Sequence[str]) -> None:
    manager, client = start_new_kernel(startup_timeout=TIMEOUT_SECONDS)
    try:
        is_interrupting = False
        for cell in cells:
            if cell == "interrupt":
                is_interrupting = True
                continue
            print_output = output_printer(manager, is_interrupting=is_interrupting)
            client.execute_interactive(cell, output_hook=print_output, timeout=TIMEOUT_SECONDS, stop_on_error=False)
            is_interrupting = False
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def output_printer(manager: KernelManager, *, is_interrupting: bool) -> Callable[[dict[str, Any]], None]:
    """Return a hook that prints the output messages of a cell, and interrupts the kernel at the first if wanted."""

    def print_output(message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            sys.stdout.write(content["text"])
            if is_interrupting:
                manager.interrupt_kernel()
        elif kind == "execute_result":
            print(content["data"]["text/plain"])
        elif kind == "error":
            print("raised", content["ename"], content["evalue"])
        sys.stdout.flush()

    return print_output


main(sys.argv[1:])
