"""Settings of all tests."""

import signal

from hypothesis import settings

# No deadline per example: times vary on a busy machine, and each test has a timeout.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")

# A shell starts background jobs with SIGINT ignored, which the processes that tests interrupt would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
