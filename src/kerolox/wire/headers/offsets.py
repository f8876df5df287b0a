"""Requests about queue offsets and consumer offsets."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.integers import Int32, Int64

# Positions in a queue


class OffsetFound(Header):
    offset: Int64 | None = None


class SearchOffset(Request[OffsetFound], code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP):
    """Finds the first offset stored at or after `timestamp`; with UPPER, the last one stored at or before it."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class GetMaxOffset(Request[OffsetFound], code=RequestCode.GET_MAX_OFFSET):
    """Returns the offset that the next message will get."""

    topic: str
    queue_id: Int32
    committed: bool | None = None


class GetMinOffset(Request[OffsetFound], code=RequestCode.GET_MIN_OFFSET):
    topic: str
    queue_id: Int32


class EarliestFound(Header):
    timestamp: Int64


class GetEarliestMsgStoretime(Request[EarliestFound], code=RequestCode.GET_EARLIEST_MSG_STORETIME):
    topic: str
    queue_id: Int32


# Consumer offsets


class QueryConsumerOffset(Request[OffsetFound], code=RequestCode.QUERY_CONSUMER_OFFSET):
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(Request[Empty], code=RequestCode.UPDATE_CONSUMER_OFFSET):
    consumer_group: str
    topic: str
    queue_id: Int32 | None = None
    commit_offset: Int64 | None = None


class GetAllConsumerOffset(Request[Empty], code=RequestCode.GET_ALL_CONSUMER_OFFSET):
    """Response body: ConsumerOffsetTable."""


class GetAllDelayOffset(Request[Empty], code=RequestCode.GET_ALL_DELAY_OFFSET):
    """Response body: the content of delayOffset.json."""


class ResetOffset(Request[Empty], code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET):
    """Resets the offsets of a group to a timestamp or an offset. Response body: ResetOffsetBody."""

    topic: str
    group: str
    # -1 means the end of each queue.
    timestamp: Int64
    is_force: bool
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class ResetConsumerClientOffset(Request[Empty], code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET):
    """Oneway from the broker to a consumer: continue at these offsets. Request body: ResetOffsetBody."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool


class GetConsumerStatus(Request[Empty], code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS):
    """Response body: ConsumerStatusTable, the in-memory offsets of each client of the group."""

    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerStatusFromClient(Request[Empty], code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT):
    topic: str
    group: str
    client_addr: str | None = None


class CloneGroupOffset(Request[Empty], code=RequestCode.CLONE_GROUP_OFFSET):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None


class QueryCorrectionOffset(Request[Empty], code=RequestCode.QUERY_CORRECTION_OFFSET, kw_only=True):
    filter_groups: str | None = None
    compare_group: str
    topic: str
