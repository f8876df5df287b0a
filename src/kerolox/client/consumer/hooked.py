"""Telling hooks of the calls of a handler."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from kerolox.client.consumer.handling import Handler, Job, is_coroutine
from kerolox.client.hooks import BeforeConsumeHook, ConsumeHook, Consuming
from kerolox.client.messages import Received
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)


class HookedCalls:
    def __init__(self, group: str, hooks: Sequence[ConsumeHook], clock: Clock) -> None:
        self._group = group
        self._hooks = list(hooks)
        self._before = [hook for hook in self._hooks if isinstance(hook, BeforeConsumeHook)]
        self._clock = clock
        # What those who want to know before were given, by the list of messages that the handler has; a list that is
        # in use has an id of its own.
        self._begun: dict[int, Consuming] = {}

    def wrapped(self, handler: Handler) -> Handler:
        """Returns the handler, which tells those who want to know before; as it was, if there are none."""
        if not self._before:
            return handler
        if is_coroutine(handler):
            return self._wrapped_coroutine(cast("Any", handler))
        call = cast("Callable[[list[Received]], Any]", handler)

        def handle(messages: list[Received]) -> Any:
            self._begin(messages)
            return call(messages)

        return handle

    def _wrapped_coroutine(self, call: Callable[[list[Received]], Awaitable[Any]]) -> Handler:
        async def handle(messages: list[Received]) -> Any:
            self._begin(messages)
            return await call(messages)

        return handle

    def _begin(self, messages: list[Received]) -> None:
        consuming = Consuming(self._group, messages[0].queue, messages, self._clock.millis())
        self._begun[id(messages)] = consuming
        for hook in self._before:
            try:
                hook.before_consume(consuming)
            except Exception:
                log.exception("a hook failed before consuming")

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
