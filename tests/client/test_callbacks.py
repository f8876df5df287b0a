import asyncio
import threading

import pytest

from kerolox.client.callbacks import Callback, call_back


async def test_a_plain_function_runs_in_a_thread() -> None:
    assert await call_back(lambda argument: (argument, threading.current_thread()), 1) != (1, threading.main_thread())


async def test_a_coroutine_function_runs_on_the_event_loop() -> None:
    async def function(argument: int) -> tuple[int, object]:
        return argument, asyncio.get_running_loop()

    given: Callback[int, object] = function
    assert await call_back(given, 1) == (1, asyncio.get_running_loop())


async def test_an_awaitable_result_is_awaited() -> None:
    async def function(argument: int) -> int:
        return argument + 1

    given: Callback[int, int] = lambda argument: function(argument)  # noqa: E731
    assert await call_back(given, 1) == 2


async def test_an_object_with_an_async_call_method_runs_on_the_event_loop() -> None:
    class Counting:
        async def __call__(self, argument: int) -> object:
            return threading.current_thread()

    given: Callback[int, object] = Counting()
    assert await call_back(given, 1) is threading.current_thread()


async def test_exceptions_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await call_back(lambda argument: 1 // argument, 0)
