"""Calls the hooks of a push consumer. Their exceptions are logged, and consuming goes on."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Any, cast

from kerolox.client.consumer.handle.invoke import Handler, Job, is_coroutine
from kerolox.client.hooks import AroundConsumeHook, BeforeConsumeHook, ConsumeHook, Consuming
from kerolox.client.messages import Received
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)


class ConsumeHooks:
    def __init__(self, group: str, hooks: Sequence[ConsumeHook], clock: Clock) -> None:
        self._group = group
        self._hooks = list(hooks)
        self._before = [hook for hook in self._hooks if isinstance(hook, BeforeConsumeHook)]
        self._around = [hook for hook in self._hooks if isinstance(hook, AroundConsumeHook)]
        self._clock = clock
        # Running calls, by the id of their list of messages, which is unique while the list is in use.
        self._running: dict[int, Consuming] = {}

    def wrap(self, handler: Handler) -> Handler:
        """Return a handler that calls the hooks before and around; the handler itself if there are none."""
        if not self._before and not self._around:
            return handler
        if is_coroutine(handler):
            return self._wrap_coroutine(cast("Any", handler))
        call = cast("Callable[[list[Received]], Any]", handler)

        def handle(messages: list[Received]) -> Any:
            with self._enter_around(self._begin(messages)):
                return call(messages)

        return handle

    def _wrap_coroutine(self, call: Callable[[list[Received]], Awaitable[Any]]) -> Handler:
        async def handle(messages: list[Received]) -> Any:
            with self._enter_around(self._begin(messages)):
                return await call(messages)

        return handle

    def _enter_around(self, consuming: Consuming) -> ExitStack:
        """Enter the context managers of the hooks; return a stack that exits those that could be entered."""
        stack = ExitStack()
        for hook in self._around:
            try:
                stack.enter_context(hook.around_consume(consuming))
            except Exception:
                log.exception("around_consume of hook %r failed", hook)
        return stack

    def _begin(self, messages: list[Received]) -> Consuming:
        consuming = Consuming(self._group, messages[0].queue, messages, self._clock.millis())
        self._running[id(messages)] = consuming
        for hook in self._before:
            try:
                hook.before_consume(consuming)
            except Exception:
                log.exception("before_consume of hook %r failed", hook)
        return consuming

    def discard(self, job: Job) -> None:
        """Forget a call for which `after` is not called."""
        self._running.pop(id(job.messages), None)

    def after(self, job: Job) -> None:
        if not self._hooks:
            return
        consuming = self._running.pop(id(job.messages), None)
        if consuming is None:
            started_millis = self._clock.millis() - int((time.monotonic() - job.started_at) * 1000)
            consuming = Consuming(self._group, job.queue, job.messages, started_millis)
        consuming.seconds = job.finished_at - job.started_at
        consuming.is_success = job.consumed.is_success
        consuming.error = job.error
        for hook in self._hooks:
            try:
                hook.after_consume(consuming)
            except Exception:
                log.exception("after_consume of hook %r failed", hook)
