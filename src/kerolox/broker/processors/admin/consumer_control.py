"""Offset resets, and requests that the broker passes on to consumers (Broker2Client)."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kerolox.broker.errors import ConsumerNotOnline, ConsumeTimeout, GroupNotFound, InvalidParameter
from kerolox.broker.parts import BrokerParts
from kerolox.broker.tables.client_registry import BROADCASTING, Channel, ConsumerGroup
from kerolox.codes import Language, ResponseCode
from kerolox.errors import CallTimeout, KeroloxError, RemotingError, SystemBusy, SystemFailure, TopicNotFound
from kerolox.message.errors import IdError
from kerolox.remoting.audit import audited
from kerolox.remoting.connection import Connection
from kerolox.remoting.long_polling import turn
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import in_turns
from kerolox.runtime.threads import in_thread
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.offsets import (
    ConsumerStatus,
    ConsumerStatusTable,
    QueueOffset,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import clients as h
from kerolox.wire.headers import offsets as o
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

_RELAY_SECONDS = 10.0
# A limit that RocketMQ does not have: bytes of relayed requests and responses that wait to be received.
_RELAYED_SIZE_MAX = 64 * 1024 * 1024
_STATUS_SECONDS = 5.0
# A limit on the body of a status response; enough for about two thousand queues.
_STATUS_LIMITS = REQUEST._replace(dialect_size_max=128 * 1024)
# Clients asked concurrently.
_ASKED_AT_ONCE = 64
# Queues handled without yielding to other tasks: finding an offset by time reads the log.
_QUEUES_AT_ONCE = 10

# The first releases that support these requests (ordinals of MQVersion).
_RESET_VERSION_MIN = 28
_RELAY_VERSION_MIN = 62


class ConsumerControlProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._request_queue = parts.request_queues["default"]
        self._relayed_size = 0

    # Reset of offsets

    @handles(o.ResetOffset)
    async def reset(self, request: Incoming[o.ResetOffset]) -> Reply[Empty]:
        header = request.header
        with audited(request, f"reset offsets of group {header.group} on topic {header.topic} to {_target(header)}"):
            offsets = await self._reset(header, is_c=is_cpp(request.language))
        return Reply(None, ResetOffsetBody(self._by_queue(header.topic, offsets)).encode())

    async def _reset(self, header: o.ResetOffset, *, is_c: bool) -> dict[int, int]:
        topic = self._topics.get(header.topic)
        if topic is None:
            raise TopicNotFound(f"Topic {header.topic} does not exist")
        members = self._clients.consumers.get(header.group)
        # With broadcasting each client keeps its own offsets.
        is_broadcast = members is not None and members.message_model == BROADCASTING
        if self._config.use_server_side_reset_offset and not is_broadcast:
            return await self._reset_on_broker(header, topic)
        return await self._reset_clients(header, topic, members, is_c=is_c)

    async def _reset_on_broker(self, header: o.ResetOffset, topic: TopicConfig) -> dict[int, int]:
        """Set the offsets of a group, online or not; its next pulls are redirected to them."""
        if header.group not in self._groups.groups:
            raise GroupNotFound(f"Group {header.group} does not exist")
        offsets: dict[int, int] = {}
        if header.queue_id is not None and header.queue_id >= 0:
            if header.queue_id >= max(topic.read_queue_nums, topic.write_queue_nums):
                raise InvalidParameter(f"queue {header.queue_id} of topic {header.topic} does not exist")
            offsets[header.queue_id] = self._offset(header, header.queue_id)
        else:
            async for queue_id in in_turns(range(topic.read_queue_nums), count=_QUEUES_AT_ONCE):
                offsets[queue_id] = self._offset_at(header, queue_id)
        if not offsets:
            raise SystemFailure("No queues to reset.")
        for queue_id, offset in offsets.items():
            self._offsets.reset(header.group, header.topic, queue_id, offset)
            # Redirect a pull that waits for the next message at once.
            self._store.message_waiters.notify(header.topic, queue_id)
        await self._offsets.file.save()
        return offsets

    def _offset(self, header: o.ResetOffset, queue_id: int) -> int:
        if header.offset is None or header.offset == -1:
            return self._offset_at(header, queue_id)
        low = self._store.reader.min_offset(header.topic, queue_id)
        high = self._store.reader.max_offset(header.topic, queue_id)
        if header.offset < max(low, 0) or header.offset > high + 1:
            raise SystemFailure(f"Target offset {header.offset} not in consume queue range [{low}-{high}]")
        return header.offset

    def _offset_at(self, header: o.ResetOffset, queue_id: int) -> int:
        if header.timestamp < 0:
            return self._store.reader.max_offset(header.topic, queue_id)
        return max(0, self._store.reader.offset_at(header.topic, queue_id, header.timestamp))

    async def _reset_clients(
        self, header: o.ResetOffset, topic: TopicConfig, members: ConsumerGroup | None, *, is_c: bool
    ) -> dict[int, int]:
        """Let the clients reset their offsets, as in 4.x; without `is_force` offsets never move forward."""
        offsets: dict[int, int] = {}
        async for queue_id in in_turns(range(topic.write_queue_nums), count=_QUEUES_AT_ONCE):
            target = self._offset_at(header, queue_id)
            offset = self._offsets.get(header.group, header.topic, queue_id)
            if offset is None and not (members is not None and members.message_model == BROADCASTING):
                # The remark of Java.
                raise SystemFailure(f"THe consumer group <{header.group}> not exist")
            offsets[queue_id] = target if header.is_force or offset is None else min(target, offset)
        if members is None or not members.channels:
            raise ConsumerNotOnline(
                f"Consumer not online, so can not reset offset, Group: {header.group} Topic: {header.topic} "
                f"Timestamp: {header.timestamp}"
            )
        for channel in members.channels.values():
            _check_version(channel, _RESET_VERSION_MIN)
        notice = o.ResetConsumerClientOffset(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force
        )
        body = self._body(header.topic, offsets, is_c=is_c)
        for channel in list(members.channels.values()):
            if not channel.connection.send_oneway(notice, body):
                log.warning("the offset reset could not be sent to %s", channel.connection.remote)
        return offsets

    def _by_queue(self, topic: str, offsets: dict[int, int]) -> dict[MessageQueue, int]:
        name = self._config.broker_name
        return {MessageQueue(name, queue_id, topic): offset for queue_id, offset in offsets.items()}

    def _body(self, topic: str, offsets: dict[int, int], *, is_c: bool) -> bytes:
        if not is_c:
            return ResetOffsetBody(self._by_queue(topic, offsets)).encode()
        name = self._config.broker_name
        listed = [
            QueueOffset(broker_name=name, offset=offset, queue_id=queue_id, topic=topic)
            for queue_id, offset in offsets.items()
        ]
        return ResetOffsetBodyForC(listed).encode()

    # Requests to clients

    @handles(o.GetConsumerStatus)
    async def status(self, request: Incoming[o.GetConsumerStatus]) -> Reply[Empty]:
        header = request.header
        members = self._clients.consumers.get(header.group)
        if members is None:
            raise SystemFailure(f"No Any Consumer online in the consumer group: [{header.group}]")
        client_id = (header.client_addr or "").strip()
        channels = [channel for channel in members.channels.values() if client_id in ("", channel.client_id)]
        for channel in channels:
            _check_version(channel, _RESET_VERSION_MIN)
        question = o.GetConsumerStatusFromClient(topic=header.topic, group=header.group)
        table: dict[str, dict[MessageQueue, int]] = {}
        for first in range(0, len(channels), _ASKED_AT_ONCE):
            asked = channels[first : first + _ASKED_AT_ONCE]
            answers = await asyncio.gather(*(_status(channel, question) for channel in asked))
            table |= {
                channel.client_id: answer for channel, answer in zip(asked, answers, strict=True) if answer is not None
            }
        return Reply(None, ConsumerStatusTable(table).encode())

    @handles(h.GetConsumerRunningInfo)
    async def running_info(self, request: Incoming[h.GetConsumerRunningInfo]) -> Reply[Empty]:
        header = request.header
        return await self._relay(request.connection, header, header.consumer_group, header.client_id)

    @handles(h.ConsumeMessageDirectly)
    async def consume_directly(self, request: Incoming[h.ConsumeMessageDirectly]) -> Reply[Empty]:
        header = request.header
        try:
            record = await self._store.lookup.record_of_id(header.msg_id or "")
        except IdError as error:
            raise InvalidParameter(str(error)) from error
        if record is None:
            raise SystemFailure(f"no message is stored at {header.msg_id}")
        topic = self._topics.get(header.topic or "")
        group = self._groups.groups.get(header.consumer_group)
        header.broker_name = self._config.broker_name
        if topic is not None:
            header.topic_sys_flag = topic.topic_sys_flag
        if group is not None:
            header.group_sys_flag = group.group_sys_flag
        return await self._relay(request.connection, header, header.consumer_group, header.client_id or "", record)

    async def _relay(
        self, requester: Connection, request: Request[Empty], group: str, client_id: str, body: bytes = b""
    ) -> Reply[Empty]:
        """Pass a request on to a client, and return its response unchanged."""
        members = self._clients.consumers.get(group)
        channel = None if members is None else members.find(client_id)
        if channel is None:
            raise SystemFailure(f"The Consumer <{group}> <{client_id}> not online")
        if channel.version < _RELAY_VERSION_MIN:
            raise SystemFailure(
                f"The Consumer <{client_id}> Version <{channel.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT"
            )
        try:
            with self._count_relayed(len(body)):
                answer = await channel.connection.ask(request, body, timeout_seconds=_RELAY_SECONDS)
        except CallTimeout as error:
            raise ConsumeTimeout(f"consumer <{group}> <{client_id}> Timeout: {error}") from error
        except RemotingError as error:
            raise SystemFailure(f"invoke consumer <{group}> <{client_id}> Exception: {error}") from error
        if not requester.is_writable:
            with self._count_relayed(len(answer.body)):
                await turn(self._request_queue, requester)
        return Reply(None, answer.body, answer.code, answer.remark)

    @contextmanager
    def _count_relayed(self, size: int) -> Iterator[None]:
        """Count bytes while they wait to be received; SystemBusy if there are too many."""
        if self._relayed_size and self._relayed_size + size > _RELAYED_SIZE_MAX:
            raise SystemBusy(f"{self._relayed_size} bytes are being relayed, the limit is {_RELAYED_SIZE_MAX}")
        self._relayed_size += size
        try:
            yield
        finally:
            self._relayed_size -= size


async def _status(channel: Channel, question: o.GetConsumerStatusFromClient) -> dict[MessageQueue, int] | None:
    try:
        answer = await channel.connection.ask(question, timeout_seconds=_STATUS_SECONDS)
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return None
        # In a thread: Java writes queues as JSON keys, which the fast decoder does not support.
        status = await in_thread(ConsumerStatus.decode, answer.body, _STATUS_LIMITS)
        return status.message_queue_table
    except KeroloxError as error:
        log.warning("%s did not return its consumer status: %s", channel.connection.remote, error)
        return None


def _check_version(channel: Channel, version: int) -> None:
    if channel.version < version:
        raise SystemFailure(f"the client does not support this feature. version={channel.version}")


def is_cpp(language: str | int | None) -> bool:
    return language in ("CPP", Language.CPP)


def _target(header: o.ResetOffset) -> str:
    """Return the target of a reset, for the audit log."""
    if header.queue_id is not None and header.queue_id >= 0 and header.offset is not None and header.offset != -1:
        return f"offset {header.offset} of queue {header.queue_id}"
    return f"timestamp {header.timestamp}"
