"""How a class for asyncio becomes one whose methods block: each is declared with one line, and keeps its signature.

class Producer(Client[aio.Producer]):
    send = blocks(aio.Producer.send)
"""

import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, Protocol, Self, TypeVar, get_args

from kerolox.client.errors import WrongState
from kerolox.client.loop_thread import LoopThread

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Blocking(Generic[A]):
    """Something that lives on the event loop of this process's LoopThread, seen from other threads."""

    def __init__(self, inner: A) -> None:
        self._inner = inner
        self._process_id = os.getpid()

    def _loop_thread(self) -> LoopThread:
        if self._process_id != os.getpid():
            raise WrongState(
                f"this {type(self).__name__} was made before a fork, in process {self._process_id}, and works there: "
                f"make another in this process"
            )
        return LoopThread.current()

    def _run(self, function: Callable[[], R]) -> R:
        """Returns what a plain function does on the loop."""

        async def run() -> R:
            return function()

        return self._loop_thread().wait(run())

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} has connections, and cannot be pickled: make it where it is used")


class Startable(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


S = TypeVar("S", bound=Startable)


class Client(Blocking[S]):
    """One that is started and closed."""

    def __enter__(self) -> Self:
        self._loop_thread().wait(self._inner.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop_thread().wait(self._inner.__aexit__(kind, error, trace))


def blocks(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Returns the method that waits until the coroutine has ended."""

    @wraps(method)
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> R:
        loop_thread = self._loop_thread()
        coroutine: Coroutine[Any, Any, R] = _of(self, method)(*args, **keywords)
        return loop_thread.wait(coroutine)

    return _described(blocking, method)


def runs(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Returns the method that has a plain one called on the loop, to which its state belongs."""

    @wraps(method)
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> R:
        function: Callable[P, R] = _of(self, method)
        return self._run(lambda: function(*args, **keywords))

    return _described(blocking, method)


def iterates(method: Callable[Concatenate[Any, P], AsyncIterator[R]]) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """Returns the method whose iterator waits for each item."""

    @wraps(method)
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> Iterator[R]:
        loop_thread = self._loop_thread()
        items: AsyncIterator[R] = _of(self, method)(*args, **keywords)
        # Left half way it is closed by the loop, which hears of it from the garbage collector.
        while True:
            try:
                item = loop_thread.wait(_next(items))
            except StopAsyncIteration:
                return
            yield item

    return _described(blocking, method, is_iterating=True)


def manages(
    method: Callable[Concatenate[Any, P], AbstractAsyncContextManager[R]],
) -> Callable[Concatenate[Any, P], AbstractContextManager[R]]:
    """Returns the method for `with` of one for `async with`."""

    @wraps(method)
    @contextmanager
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> Iterator[R]:
        loop_thread = self._loop_thread()
        manager: AbstractAsyncContextManager[R] = _of(self, method)(*args, **keywords)
        entered = loop_thread.wait(_enter(manager))
        try:
            yield entered
        except BaseException as error:
            if not loop_thread.wait(_exit(manager, error)):
                raise
        else:
            loop_thread.wait(_exit(manager, None))

    return _described(blocking, method, is_iterating=True)


def _of(blocking: Blocking[Any], method: Callable[..., Any]) -> Any:
    """Returns the method of the same name of what it stands for, which may be of a class that has another."""
    return getattr(blocking._inner, _name(method))


def _name(method: Callable[..., Any]) -> str:
    name: str = getattr(method, "__name__", "")
    return name


F = TypeVar("F", bound=Callable[..., Any])


def _described(blocking: F, method: Callable[..., Any], *, is_iterating: bool = False) -> F:
    """Returns the function with what `help` shows of it: the same, without what is asynchronous."""
    blocking.__doc__ = (method.__doc__ or "").replace("async with", "with").replace("await ", "") or None
    if is_iterating:
        signature = inspect.signature(method)
        (item,) = get_args(signature.return_annotation)
        vars(blocking)["__signature__"] = signature.replace(return_annotation=Iterator[item])  # type: ignore[valid-type]
    return blocking


async def _next(items: AsyncIterator[R]) -> R:
    return await anext(items)


async def _enter(manager: AbstractAsyncContextManager[R]) -> R:
    return await manager.__aenter__()


async def _exit(manager: AbstractAsyncContextManager[Any], error: BaseException | None) -> bool | None:
    return await manager.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
