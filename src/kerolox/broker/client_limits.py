"""Limits on what clients may store in the broker by heartbeats and lock requests; RocketMQ has none."""

from collections.abc import Iterable

from kerolox.broker.errors import InvalidParameter
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.wire.bodies.clients import ConsumerData, LockBatch, ProducerData, SubscriptionData

# The longest group name that Java clients accept. A client id is shorter: `ip@pid#time@unit`.
NAME_SIZE_MAX = 255
# Approximate memory of a subscription, and of each tag or tag code in it, besides its text.
_SUBSCRIPTION_OVERHEAD = 256
_TAG_OVERHEAD = 32
# Subscriptions of one consumer group in a heartbeat.
SUBSCRIPTIONS_MAX = 5_000
# Queues in one lock or unlock request.
LOCK_QUEUES_MAX = 10_000


def check_name(what: str, name: str | None) -> None:
    """Raise InvalidParameter if the name is too long; the message contains its length, not the name."""
    if name is not None and len(name) > NAME_SIZE_MAX:
        raise InvalidParameter(
            f"{what} of {len(name)} characters, at most {NAME_SIZE_MAX} allowed: choose a shorter one"
        )


def check_group(group: ConsumerData | ProducerData) -> None:
    """Check a group of a heartbeat and its subscriptions."""
    if isinstance(group, ProducerData):
        check_name("producer group", group.group_name)
        return
    check_name("consumer group", group.group_name)
    for option in (group.consume_type, group.message_model, group.consume_from_where):
        check_name("consume option", option)
    subscriptions = group.subscription_data_set or ()
    if len(subscriptions) > SUBSCRIPTIONS_MAX:
        raise InvalidParameter(f"{len(subscriptions)} subscriptions of a group, at most {SUBSCRIPTIONS_MAX} allowed")
    for subscription in subscriptions:
        check_name("topic", subscription.topic.removeprefix(RETRY_PREFIX))


def check_locks(batch: LockBatch) -> None:
    check_name("client id", batch.client_id)
    check_name("consumer group", batch.consumer_group)
    if len(batch.mq_set) > LOCK_QUEUES_MAX:
        raise InvalidParameter(f"{len(batch.mq_set)} queues in one request, at most {LOCK_QUEUES_MAX} allowed")
    for queue in batch.mq_set:
        check_name("broker name", queue.broker_name)
        check_name("topic", queue.topic.removeprefix(RETRY_PREFIX))


def subscriptions_size(subscriptions: Iterable[SubscriptionData]) -> int:
    """Return the approximate memory that subscriptions take, in bytes."""
    return sum(map(_subscription_size, subscriptions))


def _subscription_size(subscription: SubscriptionData) -> int:
    texts = subscription.topic, subscription.sub_string, subscription.expression_type, subscription.filter_class_source
    tags = subscription.tags_set or ()
    tag_count = len(tags) + len(subscription.code_set or ())
    text_size = sum(map(len, tags)) + sum(len(text) for text in texts if text)
    return _SUBSCRIPTION_OVERHEAD + tag_count * _TAG_OVERHEAD + text_size
