"""Runs cells, which are the arguments, in a kernel as a notebook would, one after the other; prints what they print.

The cell "interrupt" is none: the one after it is interrupted as soon as it prints something.
"""

import sys

from jupyter_client.manager import start_new_kernel

TIMEOUT_SECONDS = 60


def main(cells):
    manager, client = start_new_kernel(startup_timeout=TIMEOUT_SECONDS)
    try:
        is_interrupting = False
        for cell in cells:
            if cell == "interrupt":
                is_interrupting = True
                continue
            show = shown(manager, is_interrupting)
            client.execute_interactive(cell, output_hook=show, timeout=TIMEOUT_SECONDS, stop_on_error=False)
            is_interrupting = False
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def shown(manager, is_interrupting):
    def show(message):
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

    return show


main(sys.argv[1:])
