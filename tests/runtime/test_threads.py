"""Blocking calls in threads."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from kerolox.runtime.threads import ThreadPool, in_thread


async def test_a_call_runs_in_another_thread_and_its_result_is_returned() -> None:
    def identify(name: str, *, suffix: str) -> tuple[str, int]:
        return name + suffix, threading.get_ident()

    name, thread = await in_thread(identify, "a", suffix="b")

    assert name == "ab"
    assert thread != threading.get_ident()


async def test_the_exception_of_a_call_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


async def test_a_cancelled_caller_waits_until_the_call_is_done() -> None:
    """Otherwise a lock around the call would be free while the thread still writes."""
    begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def write() -> None:
        begun.set()
        assert may_end.wait(10)
        done.append("written")

    waiting = asyncio.create_task(in_thread(write))
    await asyncio.to_thread(begun.wait, 10)

    waiting.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == ["written"]


async def test_a_call_cancelled_before_it_started_still_runs() -> None:
    done: list[str] = []
    waiting = asyncio.create_task(in_thread(done.append, "written"))
    await asyncio.sleep(0)

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == ["written"]


async def test_a_failure_after_the_caller_was_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def write() -> None:
        begun.set()
        assert may_end.wait(10)
        raise OSError("disk full")

    waiting = asyncio.create_task(in_thread(write))
    await asyncio.to_thread(begun.wait, 10)
    waiting.cancel()
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert "failed after its caller was cancelled" in caplog.text
    assert "disk full" in caplog.text


async def test_a_pool_of_one_thread_runs_calls_in_order_and_independently_of_in_thread() -> None:
    may_end = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    others = asyncio.create_task(in_thread(may_end.wait, 10))
    thread = ThreadPool("own")
    done: list[str] = []

    await asyncio.gather(*(thread.run(partial(done.append, name)) for name in "abc"))
    name = await thread.run(lambda: threading.current_thread().name)
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 / 0)

    assert done == ["a", "b", "c"]
    assert name.startswith("own")
    assert not others.done()
    may_end.set()
    await others
    thread.close()
    # A call after `close` starts a new thread.
    assert await thread.run(lambda: "late") == "late"
    thread.close()
