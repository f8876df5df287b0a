"""Headers for sending, pulling and querying messages. Fields are in the order of Java's header classes."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request, named
from kerolox.wire.integers import Int32, Int64

# Sending


class Sent(Header):
    """Where a message was stored. Error responses carry the region too."""

    msg_id: str | None = None
    queue_id: Int32 | None = None
    queue_offset: Int64 | None = None
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = named("MSG_REGION", default=None)
    trace_on: str | None = named("TRACE_ON", default=None)


class SendMessage(Request[Sent], code=RequestCode.SEND_MESSAGE):
    """Request body: the body of the message."""

    producer_group: str
    topic: str
    # The template for auto-creating an unknown topic (TBW102), and its number of queues.
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


class SendMessageV2(Request[Sent], code=RequestCode.SEND_MESSAGE_V2):
    """SendMessage with one-letter field names; most clients send this form."""

    producer_group: str = named("a")
    topic: str = named("b")
    default_topic: str = named("c")
    default_topic_queue_nums: Int32 = named("d")
    queue_id: Int32 = named("e")
    sys_flag: Int32 = named("f")
    born_timestamp: Int64 = named("g")
    flag: Int32 = named("h")
    properties: str | None = named("i", default=None)
    reconsume_times: Int32 | None = named("j", default=None)
    unit_mode: bool | None = named("k", default=None)
    max_reconsume_times: Int32 | None = named("l", default=None)
    batch: bool | None = named("m", default=None)
    broker_name: str | None = named("n", default=None)


class SendBatchMessage(SendMessageV2, Request[Sent], code=RequestCode.SEND_BATCH_MESSAGE):
    """Request body: a batch of messages."""


class SendReplyMessage(SendMessage, Request[Sent], code=RequestCode.SEND_REPLY_MESSAGE):
    """A reply in request-reply messaging, for the client that waits for it."""


class SendReplyMessageV2(SendMessageV2, Request[Sent], code=RequestCode.SEND_REPLY_MESSAGE_V2):
    pass


class PushReplyMessage(Request[Empty], code=RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, kw_only=True):
    """From the broker to the client that waits for this reply."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Int64


class ConsumerSendMsgBack(Request[Empty], code=RequestCode.CONSUMER_SEND_MSG_BACK):
    """Asks for redelivery of the message at physical offset `offset`, which the consumer failed to consume."""

    offset: Int64
    group: str
    # Below 0: dead-letter queue. 0: the broker derives the level from reconsumeTimes.
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None


class Recalled(Header):
    """Java clients trace a recall only if the response carries the region; error responses carry it too."""

    msg_id: str | None = None
    msg_region: str | None = named("MSG_REGION", default=None)


class RecallMessage(Request[Recalled], code=RequestCode.RECALL_MESSAGE, kw_only=True):
    """Cancels a timer message that has not been delivered yet."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


# Transactions


class EndTransaction(Request[Empty], code=RequestCode.END_TRANSACTION, kw_only=True):
    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    # The transaction bits of sysFlag: 8 commit, 12 rollback, 0 unknown.
    commit_or_rollback: Int32
    from_transaction_check: bool | None = None
    msg_id: str
    transaction_id: str | None = None
    topic: str | None = None


class CheckTransactionState(Request[Empty], code=RequestCode.CHECK_TRANSACTION_STATE, kw_only=True):
    """Oneway from the broker to a producer: check a transaction. Request body: the half message."""

    topic: str | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = named("bname", default=None)


# Pulling


class Pulled(Header):
    """Where to pull next, also when nothing was found. Response body: records in commit log format."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None

    def written(self) -> bytes | None:
        # The optional fields are rare; the general encoder writes them.
        if (self.offset_delta, self.topic_sys_flag, self.group_sys_flag, self.forbidden_type) != _NO_OPTIONAL_FIELDS:
            return None
        return PULLED_FIELDS % (self.suggest_which_broker_id, self.next_begin_offset, self.min_offset, self.max_offset)


_NO_OPTIONAL_FIELDS = (None, None, None, None)
# JSON members in declaration order.
PULLED_FIELDS = b'"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d"'


class PullMessage(Request[Pulled], code=RequestCode.PULL_MESSAGE, kw_only=True):
    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    # The typo is part of the protocol.
    proxy_forward_client_id: str | None = named("proxyFrowardClientId", default=None)


class LitePullMessage(PullMessage, Request[Pulled], code=RequestCode.LITE_PULL_MESSAGE):
    pass


# Looking up


class MessagesFound(Header):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


# Values of QUERY_MESSAGE's indexType (Java's MessageConst).
INDEX_KEY = "K"
INDEX_TAG = "T"


class QueryMessage(Request[MessagesFound], code=RequestCode.QUERY_MESSAGE):
    """Queries messages by key or tag. Response body: records.

    The index holds only hashes, so the caller must compare the keys or tags of the result.
    """

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    # Since 5.5. Java reads lastKey only when its index is in RocksDB, never with index files.
    index_type: str | None = None
    last_key: str | None = None
    is_unique_key: bool | None = named("_UNIQUE_KEY_QUERY", default=None)


class ViewMessageById(Request[Empty], code=RequestCode.VIEW_MESSAGE_BY_ID, kw_only=True):
    """Response body: the record at physical offset `offset`."""

    topic: str | None = None
    offset: Int64
