"""Telling hooks of the calls of a handler."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Any, cast

from kerolox.client.consumer.handling import Handler, Job, is_coroutine
from kerolox.client.hooks import AroundConsumeHook, BeforeConsumeHook, ConsumeHook, Consuming
from kerolox.client.messages import Received
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)


class HookedCalls:
    def __init__(self, group: str, hooks: Sequence[ConsumeHook], clock: Clock) -> None:
        self._group = group
        self._hooks = list(hooks)
        self._before = [hook for hook in self._hooks if isinstance(hook, BeforeConsumeHook)]
        self._around = [hook for hook in self._hooks if isinstance(hook, AroundConsumeHook)]
        self._clock = clock
        # What those who want to know before were given, by the list of messages that the handler has; a list that is
        # in use has an id of its own.
        self._begun: dict[int, Consuming] = {}

    def wrapped(self, handler: Handler) -> Handler:
        """Returns the handler, with those who want to know before, or to be around it; as it was, if there are none."""
        if not self._before and not self._around:
            return handler
        if is_coroutine(handler):
            return self._wrapped_coroutine(cast("Any", handler))
        call = cast("Callable[[list[Received]], Any]", handler)

        def handle(messages: list[Received]) -> Any:
            with self._entered(self._begin(messages)):
                return call(messages)

        return handle

    def _wrapped_coroutine(self, call: Callable[[list[Received]], Awaitable[Any]]) -> Handler:
        async def handle(messages: list[Received]) -> Any:
            with self._entered(self._begin(messages)):
                return await call(messages)

        return handle

    def _entered(self, consuming: Consuming) -> ExitStack:
        """Returns what is to be left when the handler has ended: those around it that could be entered."""
        entered = ExitStack()
        for hook in self._around:
            try:
                entered.enter_context(hook.around_consume(consuming))
            except Exception:
                log.exception("a hook failed around a handler")
        return entered

    def _begin(self, messages: list[Received]) -> Consuming:
        consuming = Consuming(self._group, messages[0].queue, messages, self._clock.millis())
        self._begun[id(messages)] = consuming
        for hook in self._before:
            try:
                hook.before_consume(consuming)
            except Exception:
                log.exception("a hook failed before consuming")
        return consuming

    def forget(self, job: Job) -> None:
        """Says that a call was for nobody's books."""
        self._begun.pop(id(job.messages), None)

    def after(self, job: Job) -> None:
        if not self._hooks:
            return
        consuming = self._begun.pop(id(job.messages), None)
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
                log.exception("a hook failed after consuming")
