"""Turns asyncio classes into blocking ones. Each method is declared in one line and keeps its signature.

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

from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.errors import WrongState

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Blocking(Generic[A]):
    """A blocking wrapper of an object that runs on the event loop of this process's LoopThread."""

    def __init__(self, inner: A) -> None:
        self._inner = inner
        self._process_id = os.getpid()

    def _loop_thread(self) -> LoopThread:
        if self._process_id != os.getpid():
            raise WrongState(
                f"this {type(self).__name__} was created before a fork, in process {self._process_id}, and works only "
                f"there: create another one in this process"
            )
        return LoopThread.current()

    def _run(self, function: Callable[[], R]) -> R:
        """Call a plain function on the loop and return its result."""

        async def run() -> R:
            return function()

        return self._loop_thread().wait(run())

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} has connections and cannot be pickled: create it where it is used")


class Startable(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


S = TypeVar("S", bound=Startable)


class Client(Blocking[S]):
    """A blocking wrapper of an object with `start` and `close`."""

    def __enter__(self) -> Self:
        self._loop_thread().wait(self._inner.start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop_thread().wait(self._inner.__aexit__(kind, error, trace))


def blocks(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Return a blocking version of a coroutine method."""

    @wraps(method)
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> R:
        loop_thread = self._loop_thread()
        coroutine: Coroutine[Any, Any, R] = _inner_method(self, method)(*args, **keywords)
        return loop_thread.wait(coroutine)

    return _described(blocking, method)


def runs(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls a plain method on the loop, because the loop owns its state."""

    @wraps(method)
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> R:
        function: Callable[P, R] = _inner_method(self, method)
        return self._run(lambda: function(*args, **keywords))

    return _described(blocking, method)


def iterates(method: Callable[Concatenate[Any, P], AsyncIterator[R]]) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """Return a blocking version of a method that returns an async iterator."""

    @wraps(method)
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> Iterator[R]:
        loop_thread = self._loop_thread()
        items: AsyncIterator[R] = _inner_method(self, method)(*args, **keywords)
        # If the caller stops early, the garbage collector notifies the loop, which closes the async generator.
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
    """Return a `with` version of a method for `async with`."""

    @wraps(method)
    @contextmanager
    def blocking(self: Blocking[Any], /, *args: P.args, **keywords: P.kwargs) -> Iterator[R]:
        loop_thread = self._loop_thread()
        manager: AbstractAsyncContextManager[R] = _inner_method(self, method)(*args, **keywords)
        entered = loop_thread.wait(_enter(manager))
        try:
            yield entered
        except BaseException as error:
            if not loop_thread.wait(_exit(manager, error)):
                raise
        else:
            loop_thread.wait(_exit(manager, None))

    return _described(blocking, method, is_iterating=True)


def _inner_method(blocking: Blocking[Any], method: Callable[..., Any]) -> Any:
    """Look the method up by name, because the inner object may be of a subclass that overrides it."""
    return getattr(blocking._inner, _name(method))


def _name(method: Callable[..., Any]) -> str:
    name: str = getattr(method, "__name__", "")
    return name


F = TypeVar("F", bound=Callable[..., Any])


def _described(blocking: F, method: Callable[..., Any], *, is_iterating: bool = False) -> F:
    """Adapt docstring and return annotation for `help()`: without `async` and `await`."""
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
