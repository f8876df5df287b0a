"""Sending one message: to a queue of a good broker, and to another if that fails, as long as time is left."""

import asyncio
import contextlib
import logging

from kerolox.client.errors import NoRoute, SendFailed
from kerolox.client.messages import SendResult, SendStatus
from kerolox.client.names import TEMPLATE_TOPIC
from kerolox.client.producer.faults import Faults
from kerolox.client.producer.frames import SendFrames
from kerolox.client.producer.hooked import HookedSends
from kerolox.client.producer.in_flight import InFlight
from kerolox.client.producer.outgoing import Outgoing
from kerolox.client.producer.publishing import Publishing
from kerolox.client.producer.queue_choice import Selector, TopicQueues
from kerolox.client.producer.settings import ProducerSettings
from kerolox.client.session import Session
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
# What another broker might answer differently (DefaultMQProducer.retryResponseCodes).
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
# How long to wait before a broker that failed is asked again, growing to the second.
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.05, 0.5
_PROBE_TIMEOUT_SECONDS = 1.0


class Sender:
    """Sends what goes out on behalf of a group."""

    def __init__(self, session: Session, group: str, settings: ProducerSettings) -> None:
        self._session = session
        self._options = session.options
        self._group = group
        self._settings = settings
        self.hooks = HookedSends(group, settings.hooks, session.options.clock)
        self._loop = asyncio.get_running_loop()
        self._clock = session.options.clock
        self.publishing = Publishing(session, settings.create_topic_key, settings.default_topic_queue_nums)
        self._frames = SendFrames(self._request)
        self._in_flight = InFlight(settings.sends_in_flight_max)
        self._is_closed = False
        self.faults = Faults(
            self._probe,
            self._addresses,
            lambda work: session.run(work, "probing brokers"),
            self._clock,
            is_latency_heeded=settings.send_latency_fault_enable,
        )

    async def close(self) -> None:
        """Returns when what is under way has ended, for which it has the time of a send."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.send_timeout_seconds):
                await self._in_flight.empty()
        self._is_closed = True
        self.publishing.close()

    async def send(
        self, out: Outgoing, selector: Selector | None = None, timeout_seconds: float | None = None
    ) -> SendResult:
        """Returns where the message came to lie; SendFailed if no broker took it in time.

        One that goes to a certain queue is sent again only if the first request has never left.
        """
        in_flight = self._in_flight
        if in_flight.is_full:
            await in_flight.wait()
        else:
            in_flight.enter()
        try:
            return await self._send(out, selector, timeout_seconds)
        finally:
            in_flight.leave()

    async def _send(self, out: Outgoing, selector: Selector | None, timeout_seconds: float | None) -> SendResult:
        seconds = self._settings.send_timeout_seconds if timeout_seconds is None else timeout_seconds
        loop_time = self._loop.time
        start = loop_time()
        deadline = start + seconds
        brokers: list[str] = []
        attempts_left = 1 if selector else 1 + self._settings.retry_times_when_send_failed
        poor: SendResult | None = None
        failure: KeroloxError
        try:
            queues = self.publishing.known(out.topic) or await self.publishing.find(out.topic, deadline)
            queue = self._choose(queues, selector, None)
            while True:
                brokers.append(queue.broker_name)
                left = max(deadline - loop_time(), 0.001)
                # Time for the attempts that may follow, if there is another broker to ask.
                patience = left / attempts_left if len(queues.brokers) > 1 else left
                try:
                    result = await self._attempt(out, queue, patience)
                    if result.status is SendStatus.OK or not self._settings.retry_another_broker_when_not_store_ok:
                        return result
                    poor = result
                    failure = NoRoute(f"{queue.broker_name} has it as {result.status.name}")
                except (RemotingError, NoRoute) as error:
                    failure = error
                    self.publishing.refresh_soon(out.topic)
                except AnswerError as error:
                    failure = error
                    if error.code not in _RETRIED:
                        break
                # What never left costs nothing to repeat.
                if not isinstance(failure, ConnectFailed | NoRoute) or poor is not None:
                    attempts_left -= 1
                if attempts_left <= 0 or self._is_closed:
                    break
                queues = self.publishing.known(out.topic) or queues
                queue = self._choose(queues, selector, queue.broker_name)
                if queue.broker_name in brokers and not await self._pause(brokers.count(queue.broker_name), deadline):
                    break
        except NoRoute as error:
            failure = error
        if poor is not None:
            return poor
        raise self._failed(out, brokers, loop_time() - start, failure) from failure

    async def send_oneway(self, out: Outgoing, selector: Selector | None = None) -> None:
        """Puts the message on its way to one broker; whether it arrives is not known."""
        seconds = self._settings.send_timeout_seconds
        start = self._loop.time()
        brokers: list[str] = []
        try:
            queues = self.publishing.known(out.topic) or await self.publishing.find(out.topic, start + seconds)
            queue = self._choose(queues, selector, None)
            brokers.append(queue.broker_name)
            address = self._address(queue)
            sending = self.hooks.before(out, queue, address)
            try:
                await self._session.oneway(address, self._request(out, queue), out.body, timeout_seconds=seconds)
            except RemotingError as error:
                self.faults.failed(address)
                self.hooks.after(sending, None, error)
                raise
            self.hooks.after(sending, None, None)
        except (RemotingError, NoRoute) as error:
            raise self._failed(out, brokers, self._loop.time() - start, error) from error

    def _failed(self, out: Outgoing, brokers: list[str], seconds: float, cause: Exception) -> SendFailed:
        return SendFailed(self._options.unwrap(out.topic), len(brokers), brokers, seconds, cause)

    def _choose(self, queues: TopicQueues, selector: Selector | None, last_broker: str | None) -> MessageQueue:
        if selector is not None:
            return selector(queues.queues)
        if last_broker is None and not self.faults.are_any:
            return queues.next()
        return queues.next_of(self._is_good, last_broker)

    def _is_good(self, broker_name: str) -> bool:
        address = self._session.routes.address(broker_name)
        return address is not None and self.faults.is_good(self._options.vip(address))

    def _addresses(self) -> set[str]:
        brokers = self._session.routes.brokers.values()
        return {self._options.vip(address) for members in brokers for address in members.values()}

    def _address(self, queue: MessageQueue) -> str:
        address = self._session.routes.address(queue.broker_name)
        if address is None:
            raise NoRoute(f"broker {queue.broker_name!r} has no master now")
        return self._options.vip(address) if self._options.vip_channel_enabled else address

    async def _attempt(self, out: Outgoing, queue: MessageQueue, seconds: float) -> SendResult:
        address = self._address(queue)
        sending = self.hooks.before(out, queue, address)
        start = self._loop.time()
        try:
            if self._session.is_signing:
                answer = await self._session.ask(address, self._request(out, queue), out.body, timeout_seconds=seconds)
            else:
                frame = self._frames.of(out, queue)
                answer = await self._session.ask_with(address, frame, out.request.code.name, timeout_seconds=seconds)
            result = self._result(out, queue, answer)
        except RemotingError as error:
            self.faults.failed(address)
            self.hooks.after(sending, None, error)
            raise
        except Exception as error:
            self.hooks.after(sending, None, error)
            raise
        if self._settings.send_latency_fault_enable or self.faults.are_any:
            self.faults.answered(address, int((self._loop.time() - start) * 1000))
        self.hooks.after(sending, result, None)
        return result

    def _request(self, out: Outgoing, queue: MessageQueue) -> SendMessageV2:
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
    def _result(out: Outgoing, queue: MessageQueue, answer: Command) -> SendResult:
        status = _STATUSES.get(answer.code)
        if status is None:
            raise AnswerError.of(answer.code, answer.remark)
        sent = Sent.decode(answer.ext)
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
        """Waits before a broker is asked again; False if no time is left for that."""
        seconds = min(_PAUSE_SECONDS * 2 ** (count - 1), _PAUSE_SECONDS_MAX)
        if self._loop.time() + seconds >= deadline:
            return False
        await asyncio.sleep(seconds)
        return True

    async def _probe(self, address: str) -> None:
        # Whatever it answers, it answers.
        await self._session.ask(
            address, GetMaxOffset(topic=TEMPLATE_TOPIC, queue_id=0), timeout_seconds=_PROBE_TIMEOUT_SECONDS
        )
