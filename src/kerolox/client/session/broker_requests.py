"""Requests that brokers send to clients over the clients' own connections (ClientRemotingProcessor)."""

import logging
from typing import TYPE_CHECKING

from kerolox.client.messages import received
from kerolox.client.session.members import ConsumerMember, TransactionCheck
from kerolox.errors import SystemFailure
from kerolox.message import hosts, properties, property_names
from kerolox.message.message import Message as Record
from kerolox.message.records import record
from kerolox.remoting.router import Incoming, handles
from kerolox.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers import clients as c
from kerolox.wire.headers import messages as m
from kerolox.wire.headers import offsets as o
from kerolox.wire.reply import Reply

if TYPE_CHECKING:
    from kerolox.client.session.session import Session

log = logging.getLogger(__name__)


class BrokerRequests:
    """Passes each request to the producer or consumer of the group that it names."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    @handles(m.CheckTransactionState)
    async def check_transaction(self, request: Incoming[m.CheckTransactionState]) -> Reply[Empty]:
        half, header = record.decode(request.body), request.header
        group = half.get(property_names.PGROUP)
        member = self._session.producers.get(group or "")
        if member is None:
            raise SystemFailure(f"this client has no producer of group {group!r} to check the transaction")
        await member.check_transaction(
            TransactionCheck(
                address=request.connection.remote,
                record=half,
                tran_state_table_offset=header.tran_state_table_offset,
                commit_log_offset=header.commit_log_offset,
                message_id=header.msg_id,
                transaction_id=header.transaction_id,
            )
        )
        return Reply()

    @handles(c.NotifyConsumerIdsChanged)
    def consumer_ids_changed(self, request: Incoming[c.NotifyConsumerIdsChanged]) -> Reply[Empty]:
        group = request.header.consumer_group
        log.info("broker %s reports that the members of group %s changed", request.connection.remote, group)
        # Like Java, rebalance the consumers of all groups: each may have missed a notification of its own.
        for member in list(self._session.consumers.values()):
            member.rebalance_soon()
        return Reply()

    @handles(o.ResetConsumerClientOffset)
    async def reset_offsets(self, request: Incoming[o.ResetConsumerClientOffset]) -> Reply[Empty]:
        offsets = ResetOffsetBody.decode(request.body).offset_table
        log.info("broker requests an offset reset of %d queues of group %s", len(offsets), request.header.group)
        await self._consumer(request.header.group).reset_offsets(request.header.topic, offsets)
        return Reply()

    @handles(o.GetConsumerStatusFromClient)
    def status(self, request: Incoming[o.GetConsumerStatusFromClient]) -> Reply[Empty]:
        offsets = self._consumer(request.header.group).status(request.header.topic)
        return Reply(None, ConsumerStatus(dict(offsets)).encode())

    @handles(c.GetConsumerRunningInfo)
    def running_info(self, request: Incoming[c.GetConsumerRunningInfo]) -> Reply[Empty]:
        member = self._consumer(request.header.consumer_group)
        return Reply(None, member.running_info(has_stacks=bool(request.header.jstack_enable)).encode())

    @handles(c.ConsumeMessageDirectly)
    async def consume(self, request: Incoming[c.ConsumeMessageDirectly]) -> Reply[Empty]:
        member = self._consumer(request.header.consumer_group)
        message = record.decode(request.body)
        queue = MessageQueue(request.header.broker_name or "", message.queue_id, message.topic)
        topic = self._session.options.unwrap(message.topic)
        return Reply(None, (await member.consume_directly(received(message, queue, topic))).encode())

    @handles(m.PushReplyMessage)
    def reply(self, request: Incoming[m.PushReplyMessage]) -> Reply[Empty]:
        header = request.header
        message = Record(
            header.topic,
            request.body,
            properties.join(
                (header.properties or "").encode("utf-8", "surrogateescape"),
                b"%b\x01%d\x02" % (property_names.ARRIVE_TIME.encode(), self._session.options.clock.millis()),
            ),
            header.queue_id,
            header.flag,
            header.sys_flag,
            header.born_timestamp,
            hosts.parse(header.born_host),
            header.store_timestamp,
            hosts.parse(header.store_host),
            header.reconsume_times or 0,
        )
        correlation_id = message.get(property_names.CORRELATION_ID)
        pending = self._session.pending_replies.get(correlation_id or "")
        if pending is None or pending.done():
            log.warning("ignored a reply to the unknown or finished request %s", correlation_id)
        else:
            queue = MessageQueue("", header.queue_id, header.topic)
            pending.set_result(received(message, queue, self._session.options.unwrap(header.topic)))
        return Reply()

    def _consumer(self, group: str) -> ConsumerMember:
        member = self._session.consumers.get(group)
        if member is None:
            raise SystemFailure(f"this client has no consumer of group {group!r}")
        return member
