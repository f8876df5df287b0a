"""How much of what clients say of themselves is kept; bounds the original does not have."""

from collections.abc import Iterable

from kerolox.broker.errors import InvalidParameter
from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.wire.bodies.clients import HeartbeatData, LockBatch, SubscriptionData

# The longest name of a group that a client of the original takes. A client id is short: `ip@pid#time@unit`.
NAME_SIZE_MAX = 255
# What a subscription, and each tag or number in it, takes beside its text, roughly.
_SUBSCRIPTION_SIZE = 256
_WORD_SIZE = 32


def check_name(what: str, name: str | None) -> None:
    """InvalidParameter, which tells the length and not the name, if it is too long."""
    if name is not None and len(name) > NAME_SIZE_MAX:
        raise InvalidParameter(
            f"{what} of {len(name)} characters, at most {NAME_SIZE_MAX} allowed: choose a shorter one"
        )


def check_heartbeat(data: HeartbeatData) -> None:
    check_name("client id", data.client_id)
    for producer in data.producer_data_set or ():
        check_name("producer group", producer.group_name)
    for consumer in data.consumer_data_set or ():
        check_name("consumer group", consumer.group_name)
        for word in (consumer.consume_type, consumer.message_model, consumer.consume_from_where):
            check_name("a word of the heartbeat", word)
        for subscription in consumer.subscription_data_set or ():
            check_name("topic", subscription.topic.removeprefix(RETRY_PREFIX))


def check_locks(batch: LockBatch) -> None:
    check_name("client id", batch.client_id)
    check_name("consumer group", batch.consumer_group)
    for queue in batch.mq_set:
        check_name("broker name", queue.broker_name)
        check_name("topic", queue.topic.removeprefix(RETRY_PREFIX))


def size_of(subscriptions: Iterable[SubscriptionData]) -> int:
    """Returns about how much memory subscriptions take."""
    return sum(map(_size_of, subscriptions))


def _size_of(subscription: SubscriptionData) -> int:
    texts = subscription.topic, subscription.sub_string, subscription.expression_type, subscription.filter_class_source
    tags = subscription.tags_set or ()
    words = len(tags) + len(subscription.code_set or ())
    return _SUBSCRIPTION_SIZE + words * _WORD_SIZE + sum(map(len, tags)) + sum(len(text) for text in texts if text)
