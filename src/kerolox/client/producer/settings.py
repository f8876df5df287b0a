"""How a producer sends; the names and defaults are Java's, where it has them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from kerolox.client.hooks import SendHook
from kerolox.client.names import TEMPLATE_TOPIC
from kerolox.client.options import Options, Shared, options_of
from kerolox.errors import ConfigurationError
from kerolox.message.compression import LEVEL
from kerolox.message.record import BODY_SIZE_MAX
from kerolox.message.sysflag import CompressionType


class ProducerKeywords(Shared, total=False):
    """The keywords that producers take; ProducerSettings, and Options, say what they mean."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    # For all attempts together.
    send_timeout_seconds: float = 3.0
    # How often another broker is asked when one fails, within the time-out.
    retry_times_when_send_failed: int = 2
    # Whether a message that a broker has, though not as safely as wished, is sent to another one too.
    retry_another_broker_when_not_store_ok: bool = False
    # After which topic brokers model one that they do not know, and with how many queues at most.
    create_topic_key: str = TEMPLATE_TOPIC
    default_topic_queue_nums: int = 4
    # Whether brokers that are slow are avoided for a while; those that fail always are.
    send_latency_fault_enable: bool = False
    # Bodies of so many bytes or more are compressed. What is older than 4.9.4, or not Java, mostly reads zlib only.
    compress_msg_body_over_howmuch: int = 4096
    compress_type: CompressionType = CompressionType.ZLIB
    compress_level: int = LEVEL
    max_message_size: int = BODY_SIZE_MAX
    # So many messages, or batches, are under way at once; the next wait, and their time-out begins when they leave.
    sends_in_flight_max: int = 1024
    # Whether what is sent within so many seconds travels together; with 0, what is sent in one turn of the loop.
    auto_batch: bool = False
    linger_seconds: float = 0.0
    # A batch is sent when it has so many bytes, or messages.
    batch_size_max: int = 64 * 1024
    batch_count_max: int = 1000
    hooks: Sequence[SendHook] = ()

    def __post_init__(self) -> None:
        for name in (
            "send_timeout_seconds",
            "sends_in_flight_max",
            "default_topic_queue_nums",
            "batch_size_max",
            "batch_count_max",
        ):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name}={getattr(self, name)}: it must be above 0")
        for name in ("retry_times_when_send_failed", "linger_seconds", "compress_msg_body_over_howmuch"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}={getattr(self, name)}: it must not be below 0")


_OWN = frozenset(field.name for field in fields(ProducerSettings))


def configured(options: Options | None, keywords: dict[str, Any]) -> tuple[Options, ProducerSettings]:
    """Returns what all clients share, and what is the producer's, of the keywords it was given."""
    own = {name: value for name, value in keywords.items() if name in _OWN}
    shared: Any = {name: value for name, value in keywords.items() if name not in _OWN}
    return options_of(options, **shared), ProducerSettings(**own)
