"""Popping: the broker remembers what it has handed out, and hands it out again if nobody says it was consumed."""

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
    """Answered with records."""

    consumer_group: str
    topic: str
    # -1 is any.
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64
    # Where a group begins that was never here: 0 at the first message, 1 at the last.
    init_mode: Int32
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PeekMessage(Request[Popped], code=RequestCode.PEEK_MESSAGE):
    """The same, and nothing is remembered of it."""

    consumer_group: str
    topic: str
    queue_id: Int32
    max_msg_nums: Int32


class AckMessage(Request[Empty], code=RequestCode.ACK_MESSAGE):
    consumer_group: str
    topic: str
    queue_id: Int32
    # The receipt: where and when the message was popped.
    extra_info: str
    offset: Int64


class BatchAckMessage(Request[Empty], code=RequestCode.BATCH_ACK_MESSAGE):
    """Carries a BatchAck."""


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
    # It comes again without counting as consumed (5.5).
    suspend: bool | None = None


class Notified(Header):
    has_msg: bool
    polling_full: bool | None = None


class Notification(Request[Notified], code=RequestCode.NOTIFICATION):
    """Waits until there is something to pop."""

    consumer_group: str
    topic: str
    queue_id: Int32
    poll_time: Int64
    born_time: Int64
    order: bool | None = None
    attempt_id: str | None = None


class PollingCounted(Header):
    polling_num: Int32


class PollingInfo(Request[PollingCounted], code=RequestCode.POLLING_INFO):
    consumer_group: str
    topic: str
    queue_id: Int32


class PopRollback(Request[Empty], code=RequestCode.POP_ROLLBACK):
    """Has a broker that keeps its checkpoints in RocksDB write them to the revive log."""
