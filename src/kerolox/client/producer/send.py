"""Sends a message to a queue of an available broker, and retries on others within the timeout."""

import asyncio
import contextlib
import logging
from collections import deque

from kerolox.client.errors import NoRoute, SendFailed
from kerolox.client.messages import SendResult, SendStatus
from kerolox.client.producer.encoding import EncodedMessage
from kerolox.client.producer.fault_tolerance import FaultTolerance
from kerolox.client.producer.hooks import SendHooks
from kerolox.client.producer.publish_info import PublishInfo
from kerolox.client.producer.queue_selection import Selector, TopicQueues
from kerolox.client.producer.send_frames import SendFrames
from kerolox.client.producer.settings import ProducerSettings
from kerolox.client.resource_names import TEMPLATE_TOPIC
from kerolox.client.session.session import Session
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConnectFailed, KeroloxError, RemotingError
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.command import Command
from kerolox.wire.headers.messages import SendMessageV2, Sent
from kerolox.wire.headers.offsets import GetMaxOffset

log = logging.getLogger(__name__)

_STATUSES = {
    ResponseCode.SUCCESS.value: SendStatus.OK,
    ResponseCode.FLUSH_DISK_TIMEOUT.value: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE.value: SendStatus.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT.value: SendStatus.FLUSH_SLAVE_TIMEOUT,
}
# Errors that another broker may not have (DefaultMQProducer.retryResponseCodes).
_RETRIED = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)
# Pause before a broker is tried again, doubled each time up to the maximum.
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.05, 0.5
_PROBE_TIMEOUT_SECONDS = 1.0


class Sender:
    """Sends the encoded messages of a producer group."""

    def __init__(self, session: Session, group: str, settings: ProducerSettings) -> None:
        self._session = session
        self._options = session.options
        self._group = group
        self._settings = settings
        self.hooks = SendHooks(group, settings.hooks, session.options.clock)
        self._loop = asyncio.get_running_loop()
        self._clock = session.options.clock
        self.publish_info = PublishInfo(session, settings.create_topic_key, settings.default_topic_queue_nums)
        self._frames = SendFrames(self._request)
        self._in_flight = InFlightLimit(settings.sends_in_flight_max)
        self._is_closed = False
        self.fault_tolerance = FaultTolerance(
            self._probe,
            self._addresses,
            lambda work: session.run_in_background(work, "probing brokers"),
            self._clock,
            avoid_slow=settings.send_latency_fault_enable,
        )

    async def close(self) -> None:
        """Wait for the sends in flight, at most for the timeout of a send."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.send_timeout_seconds):
                await self._in_flight.wait_empty()
        self._is_closed = True
        self.publish_info.close()

    async def send(
        self, out: EncodedMessage, selector: Selector | None = None, timeout_seconds: float | None = None
    ) -> SendResult:
        """Return the result of the first broker that stores the message; raise SendFailed if none does in time.

        With a selector, the message is retried only if the request was not sent at all.
        """
        in_flight = self._in_flight
        if in_flight.is_full:
            await in_flight.wait_and_enter()
        else:
            in_flight.enter()
        try:
            return await self._send(out, selector, timeout_seconds)
        finally:
            in_flight.leave()

    async def _send(self, out: EncodedMessage, selector: Selector | None, timeout_seconds: float | None) -> SendResult:
        seconds = self._settings.send_timeout_seconds if timeout_seconds is None else timeout_seconds
        loop_time = self._loop.time
        start = loop_time()
        deadline = start + seconds
        brokers: list[str] = []
        attempts_left = 1 if selector else 1 + self._settings.retry_times_when_send_failed
        not_ok_result: SendResult | None = None
        failure: KeroloxError
        try:
            queues = self.publish_info.known(out.topic) or await self.publish_info.fetch(out.topic, deadline)
            queue = self._choose(queues, selector, None)
            while True:
                brokers.append(queue.broker_name)
                left = max(deadline - loop_time(), 0.001)
                # Leave time for further attempts if there is another broker to try.
                attempt_seconds = left / attempts_left if len(queues.brokers) > 1 else left
                try:
                    result = await self._attempt(out, queue, attempt_seconds)
                    if result.status is SendStatus.OK or not self._settings.retry_another_broker_when_not_store_ok:
                        return result
                    not_ok_result = result
                    failure = NoRoute(f"broker {queue.broker_name!r} stored it with status {result.status.name}")
                except (RemotingError, NoRoute) as error:
                    failure = error
                    self.publish_info.refresh_soon(out.topic)
                except AnswerError as error:
                    failure = error
                    if error.code not in _RETRIED:
                        break
                # A request that was never sent cannot duplicate the message, so it does not count as an attempt.
                if not isinstance(failure, ConnectFailed | NoRoute) or not_ok_result is not None:
                    attempts_left -= 1
                if attempts_left <= 0 or self._is_closed:
                    break
                queues = self.publish_info.known(out.topic) or queues
                queue = self._choose(queues, selector, queue.broker_name)
                if queue.broker_name in brokers and not await self._pause(brokers.count(queue.broker_name), deadline):
                    break
        except NoRoute as error:
            failure = error
        if not_ok_result is not None:
            return not_ok_result
        raise self._failed(out, brokers, loop_time() - start, failure) from failure

    async def send_oneway(self, out: EncodedMessage, selector: Selector | None = None) -> None:
        """Send to one broker without an acknowledgement: the message may be lost."""
        seconds = self._settings.send_timeout_seconds
        start = self._loop.time()
        brokers: list[str] = []
        try:
            queues = self.publish_info.known(out.topic) or await self.publish_info.fetch(out.topic, start + seconds)
            queue = self._choose(queues, selector, None)
            brokers.append(queue.broker_name)
            address = self._address(queue)
            sending = self.hooks.before(out, queue, address)
            try:
                await self._session.oneway(address, self._request(out, queue), out.body, timeout_seconds=seconds)
            except RemotingError as error:
                self.fault_tolerance.record_failure(address)
                self.hooks.after(sending, None, error)
                raise
            self.hooks.after(sending, None, None)
        except (RemotingError, NoRoute) as error:
            raise self._failed(out, brokers, self._loop.time() - start, error) from error

    def _failed(self, out: EncodedMessage, brokers: list[str], seconds: float, cause: Exception) -> SendFailed:
        return SendFailed(self._options.unwrap(out.topic), len(brokers), brokers, seconds, cause)

    def _choose(self, queues: TopicQueues, selector: Selector | None, last_broker: str | None) -> MessageQueue:
        if selector is not None:
            return selector(queues.queues)
        if last_broker is None and not self.fault_tolerance.has_faults:
            return queues.next()
        return queues.next_available(self._is_available, last_broker)

    def _is_available(self, broker_name: str) -> bool:
        address = self._session.routes.address(broker_name)
        return address is not None and self.fault_tolerance.is_available(self._options.vip(address))

    def _addresses(self) -> set[str]:
        brokers = self._session.routes.brokers.values()
        return {self._options.vip(address) for members in brokers for address in members.values()}

    def _address(self, queue: MessageQueue) -> str:
        address = self._session.routes.address(queue.broker_name)
        if address is None:
            raise NoRoute(f"broker {queue.broker_name!r} has no master now")
        return self._options.vip(address) if self._options.vip_channel_enabled else address

    async def _attempt(self, out: EncodedMessage, queue: MessageQueue, seconds: float) -> SendResult:
        address = self._address(queue)
        sending = self.hooks.before(out, queue, address)
        start = self._loop.time()
        try:
            if self._session.is_signing:
                request = self._request(out, queue)
                response = await self._session.ask(address, request, out.body, timeout_seconds=seconds)
            else:
                frame = self._frames.frame_builder(out, queue)
                response = await self._session.ask_with_frame(
                    address, frame, out.request.code.name, timeout_seconds=seconds
                )
            result = self._result(out, queue, response)
        except RemotingError as error:
            self.fault_tolerance.record_failure(address)
            self.hooks.after(sending, None, error)
            raise
        except Exception as error:
            self.hooks.after(sending, None, error)
            raise
        if self._settings.send_latency_fault_enable or self.fault_tolerance.has_faults:
            self.fault_tolerance.record_success(address, int((self._loop.time() - start) * 1000))
        self.hooks.after(sending, result, None)
        return result

    def _request(self, out: EncodedMessage, queue: MessageQueue) -> SendMessageV2:
        return out.request(
            producer_group=self._group,
            topic=out.topic,
            default_topic=self._settings.create_topic_key,
            default_topic_queue_nums=self._settings.default_topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=out.sys_flag,
            born_timestamp=out.born_millis,
            flag=out.flag,
            properties=out.properties,
            reconsume_times=out.reconsume_times,
            unit_mode=self._options.unit_mode,
            max_reconsume_times=out.max_reconsume_times,
            batch=out.kind == "batch",
            broker_name=queue.broker_name,
        )

    @staticmethod
    def _result(out: EncodedMessage, queue: MessageQueue, response: Command) -> SendResult:
        status = _STATUSES.get(response.code)
        if status is None:
            raise AnswerError.of(response.code, response.remark)
        sent = Sent.decode(response.ext)
        if sent.queue_id is not None and sent.queue_id != queue.queue_id:
            queue = MessageQueue(queue.broker_name, sent.queue_id, queue.topic)
        return SendResult(
            status,
            out.message_id,
            sent.msg_id or "",
            queue,
            sent.queue_offset or 0,
            sent.transaction_id,
            sent.recall_handle,
            sent.msg_region or "DefaultRegion",
            sent.trace_on != "false",
        )

    async def _pause(self, count: int, deadline: float) -> bool:
        """Wait before a broker is tried again; return False if the deadline is too close."""
        seconds = min(_PAUSE_SECONDS * 2 ** (count - 1), _PAUSE_SECONDS_MAX)
        if self._loop.time() + seconds >= deadline:
            return False
        await asyncio.sleep(seconds)
        return True

    async def _probe(self, address: str) -> None:
        # Any response will do, whatever its code.
        await self._session.ask(
            address, GetMaxOffset(topic=TEMPLATE_TOPIC, queue_id=0), timeout_seconds=_PROBE_TIMEOUT_SECONDS
        )


class InFlightLimit:
    """Limits the sends in flight of a producer. The timeout of a send begins when it gets its slot.

    It is a semaphore, except that `enter` does not await while slots are free: sends are a hot path.
    """

    __slots__ = ("_count_max", "_empty", "_waiters", "count")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._empty: asyncio.Future[None] | None = None
        self.count = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._count_max

    def enter(self) -> None:
        """Take a slot; the caller has checked `is_full`."""
        self.count += 1

    async def wait_and_enter(self) -> None:
        """Take a slot as soon as one is free, first come first served."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            # `leave` hands its slot over without changing `count`.
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Give the slot to the first waiter, or free it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.count -= 1
        if not self.count and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    async def wait_empty(self) -> None:
        """Return when nothing is in flight."""
        while self.count:
            if self._empty is None or self._empty.done():
                self._empty = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._empty)
