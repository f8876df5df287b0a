"""What an iteration in another thread has in hand: messages that a pull consumer lent it, several at a time."""

import threading
import time
from collections import deque
from functools import partial
from typing import Final

from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.consumer.reading import Reader
from kerolox.client.loop_thread import LoopThread
from kerolox.client.messages import Received

# So late the consumer hears at most of what was consumed, which it then commits when it is time to.
_TELL_SECONDS: Final = 0.05


class Hand:
    """Saves the way to the loop and back for each message, and means the same: one is done once the next is asked for.

    Before anything else is done with the consumer, it has back what is in the hand.
    """

    def __init__(self, consumer: PullConsumer, *, tell_seconds: float = _TELL_SECONDS) -> None:
        self._consumer = consumer
        self._tell_seconds = tell_seconds
        self._told_at = 0.0
        self._lock = threading.Lock()
        self._lent: deque[tuple[Reader, Received]] = deque()
        self._done: list[Reader] = []
        self._given: Reader | None = None

    def next(self, loop_thread: LoopThread) -> Received:
        """Waits as long as it takes; StopAsyncIteration when the consumer is closed."""
        while True:
            with self._lock:
                message = self._next_lent()
                if self._done and (message is None or time.monotonic() - self._told_at >= self._tell_seconds):
                    self._tell(loop_thread)
            if message is not None:
                return message
            # What was under way to somebody who was interrupted has reached nobody, and comes again.
            lent = loop_thread.wait(self._consumer.lend(), on_interrupt=self._consumer.take_back)
            with self._lock:
                self._lent.extend(lent)

    def _next_lent(self) -> Received | None:
        if self._given is not None:
            self._done.append(self._given)
            self._given = None
        while self._lent:
            reader, message = self._lent.popleft()
            if not reader.window.is_dropped:
                self._given = reader
                return message
        return None

    def _tell(self, loop_thread: LoopThread) -> None:
        loop_thread.call(partial(self._consumer.settle, self._done))
        self._done = []
        self._told_at = time.monotonic()

    def put_back(self, loop_thread: LoopThread) -> None:
        """Does not wait: what is asked of the loop next comes after it."""
        with self._lock:
            if self._done:
                self._tell(loop_thread)
            if self._given is not None or self._lent:
                loop_thread.call(partial(self._consumer.put_back, self._given, tuple(self._lent)))
                self._given = None
                self._lent.clear()
