"""Requests of pop consumption.

A popped message is invisible to its group until it is acked or its invisible time ends.
"""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.integers import Int32, Int64


class Popped(Header):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PopMessage(Request[Popped], code=RequestCode.POP_MESSAGE):
    """Response body: records."""

    consumer_group: str
    topic: str
    # -1 means any queue.
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    # Start of a group without offsets: 0 at the min offset, 1 at the max offset.
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PeekMessage(Request[Popped], code=RequestCode.PEEK_MESSAGE):
    """Reads like PopMessage, without a checkpoint: the messages stay visible."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class AckMessage(Request[Empty], code=RequestCode.ACK_MESSAGE):
    consumer_group: str
    topic: str
    queue_id: Int32
    # The receipt handle: queue, offset and time of the pop.
    extra_info: str
    offset: Int64


class BatchAckMessage(Request[Empty], code=RequestCode.BATCH_ACK_MESSAGE):
    """Request body: BatchAck."""


class InvisibleTimeChanged(Header):
    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class ChangeMessageInvisibleTime(Request[InvisibleTimeChanged], code=RequestCode.CHANGE_MESSAGE_INVISIBLETIME):
    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64
    # Redeliver without increasing reconsumeTimes (5.5).
    suspend: bool | None = None


class Notified(Header):
    has_msg: bool
    polling_full: bool | None = None


class Notification(Request[Notified], code=RequestCode.NOTIFICATION):
    """Long poll that ends when a message can be popped."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool | None = None
    attempt_id: str | None = None
    # Since 5.5: messages that the expression excludes do not end the wait.
    exp_type: str | None = None
    exp: str | None = None


class PollingCounted(Header):
    polling_num: Int32


class PollingInfo(Request[PollingCounted], code=RequestCode.POLLING_INFO):
    consumer_group: str
    topic: str
    queue_id: Int32


class PopRollback(Request[Empty], code=RequestCode.POP_ROLLBACK):
    """Moves pop checkpoints from RocksDB to the revive log."""
