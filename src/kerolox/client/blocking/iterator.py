"""Iterates over a pull consumer from another thread, taking several messages at a time."""

import threading
import time
from collections import deque
from functools import partial
from typing import Final

from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.consumer.fetch.queue_reader import QueueReader
from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.messages import Received

# Maximum delay before the consumer learns which messages were consumed. It commits them periodically.
_REPORT_SECONDS: Final = 0.05


class ThreadIterator:
    """Saves a round trip to the event loop per message. As in PullConsumer, requesting the next one consumes a message.

    Before any other use of the consumer, `return_batch` must give back the messages that are left.
    """

    def __init__(self, consumer: PullConsumer, *, report_seconds: float = _REPORT_SECONDS) -> None:
        self._consumer = consumer
        self._report_seconds = report_seconds
        self._reported_at = 0.0
        self._lock = threading.Lock()
        self._batch: deque[tuple[QueueReader, Received]] = deque()
        # The readers of consumed messages that have not been reported to the consumer yet.
        self._consumed: list[QueueReader] = []
        # The reader of the message that was returned last.
        self._last_reader: QueueReader | None = None

    def next(self, loop_thread: LoopThread) -> Received:
        """Wait for the next message without a timeout; raise StopAsyncIteration when the consumer is closed."""
        while True:
            with self._lock:
                message = self._next_of_batch()
                is_due = message is None or time.monotonic() - self._reported_at >= self._report_seconds
                if self._consumed and is_due:
                    self._report(loop_thread)
            if message is not None:
                return message
            # If this thread is interrupted, the messages on their way to it are redelivered.
            batch = loop_thread.wait(self._consumer.take_batch(), on_interrupt=self._consumer.rewind)
            with self._lock:
                self._batch.extend(batch)

    def _next_of_batch(self) -> Received | None:
        if self._last_reader is not None:
            self._consumed.append(self._last_reader)
            self._last_reader = None
        while self._batch:
            reader, message = self._batch.popleft()
            if not reader.process_queue.is_dropped:
                self._last_reader = reader
                return message
        return None

    def _report(self, loop_thread: LoopThread) -> None:
        loop_thread.call(partial(self._consumer.commit_batch, self._consumed))
        self._consumed = []
        self._reported_at = time.monotonic()

    def return_batch(self, loop_thread: LoopThread) -> None:
        """Give the rest of the batch back to the consumer. Does not wait: later calls on the loop run after it."""
        with self._lock:
            if self._consumed:
                self._report(loop_thread)
            if self._last_reader is not None or self._batch:
                loop_thread.call(partial(self._consumer.return_batch, self._last_reader, tuple(self._batch)))
                self._last_reader = None
                self._batch.clear()
