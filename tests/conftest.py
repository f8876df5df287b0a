"""What holds for all tests."""

import signal

from hypothesis import settings

# How long an example takes says nothing on a busy machine; tests have a time-out as a whole.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")

# A shell has what it runs in the background ignore interrupts, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
