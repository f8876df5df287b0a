"""A stop flag that a signal handler sets never deadlocks the thread that waits for it."""

import signal
import threading
import time

from kerolox.spark.pipelines.engine.runner import SignalFlag


def test_a_signal_handler_may_set_the_flag_at_any_point_of_a_wait() -> None:
    flags = [SignalFlag()]
    main = threading.get_ident()
    ended = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: flags[-1].set())

    def send_signals() -> None:
        while not ended.is_set():
            signal.pthread_kill(main, signal.SIGUSR1)
            time.sleep(0)

    sender = threading.Thread(target=send_signals)
    sender.start()
    try:
        for _ in range(500):
            while not flags[-1].wait(0.0001):
                pass
            flags.append(SignalFlag())
    finally:
        ended.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)

    assert all(flag.is_set() for flag in flags[:-1])


def test_a_wait_ends_with_its_timeout_and_a_set_flag_is_not_waited_for() -> None:
    flag = SignalFlag()
    assert not flag.wait(0.001)

    flag.set()

    assert flag.is_set()
    assert flag.wait(60)
    assert flag.wait(60)
