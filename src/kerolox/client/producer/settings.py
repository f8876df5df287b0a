"""Settings of producers, with Java's names and defaults where Java has them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from kerolox.client.hooks import SendHook
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.resource_names import TEMPLATE_TOPIC
from kerolox.errors import ConfigurationError
from kerolox.message.compression import LEVEL
from kerolox.message.records.record import BODY_SIZE_MAX
from kerolox.message.sysflag import CompressionType


class ProducerKeywords(Shared, total=False):
    """The keyword arguments of producers, documented in ProducerSettings and Options."""

    send_timeout_seconds: float
    retry_times_when_send_failed: int
    retry_another_broker_when_not_store_ok: bool
    create_topic_key: str
    default_topic_queue_nums: int
    send_latency_fault_enable: bool
    compress_msg_body_over_howmuch: int
    compress_type: CompressionType
    compress_level: int
    max_message_size: int
    sends_in_flight_max: int
    auto_batch: bool
    linger_seconds: float
    batch_size_max: int
    batch_count_max: int
    hooks: Sequence[SendHook]


_POSITIVE = (
    "send_timeout_seconds",
    "sends_in_flight_max",
    "default_topic_queue_nums",
    "batch_size_max",
    "batch_count_max",
)
_NOT_NEGATIVE = ("retry_times_when_send_failed", "linger_seconds", "compress_msg_body_over_howmuch")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    # For all attempts together.
    send_timeout_seconds: float = 3.0
    # Retries on other brokers after a failure, within the timeout.
    retry_times_when_send_failed: int = 2
    # Whether to send a message to another broker too if the first one stored it with a status other than OK.
    retry_another_broker_when_not_store_ok: bool = False
    # The template topic from which brokers auto-create an unknown topic, and the maximum number of its queues.
    create_topic_key: str = TEMPLATE_TOPIC
    default_topic_queue_nums: int = 4
    # Whether to avoid slow brokers for some time; those that fail are always avoided.
    send_latency_fault_enable: bool = False
    # Bodies of this size or more are compressed. Clients before 4.9.4, and most that are not Java, read only zlib.
    compress_msg_body_over_howmuch: int = 4096
    compress_type: CompressionType = CompressionType.ZLIB
    compress_level: int = LEVEL
    max_message_size: int = BODY_SIZE_MAX
    # Maximum of messages, or batches, in flight. Further sends wait, and their timeout begins when they are sent.
    sends_in_flight_max: int = 1024
    # Whether to collect messages into batches for this many seconds; with 0, for one iteration of the event loop.
    auto_batch: bool = False
    linger_seconds: float = 0.0
    # A batch is sent when it reaches this many bytes, or messages.
    batch_size_max: int = 64 * 1024
    batch_count_max: int = 1000
    hooks: Sequence[SendHook] = ()

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name}={getattr(self, name)} must be greater than 0")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}={getattr(self, name)} must not be negative")


_OWN = frozenset(field.name for field in fields(ProducerSettings))


def split_keywords(options: Options | None, keywords: dict[str, Any]) -> tuple[Options, ProducerSettings]:
    """Split the keyword arguments of a producer into the shared options and its own settings."""
    own = {name: value for name, value in keywords.items() if name in _OWN}
    shared: Any = {name: value for name, value in keywords.items() if name not in _OWN}
    return options_of(options, **shared), ProducerSettings(**own)
