"""Settings of consumers, with Java's names (plus units) and Java's defaults."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from kerolox.client.consumer.group.allocation import AVERAGELY, Strategy
from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.group.offset_store import LOCAL_DIRECTORY
from kerolox.client.consumer.group.rebalance import MessageModel
from kerolox.client.hooks import ConsumeHook
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.tracing.trace_format import TRACE_TOPIC
from kerolox.errors import ConfigurationError


class MemberKeywords(Shared, total=False):
    """The keyword arguments of push and pull consumers, documented in MemberSettings."""

    message_model: MessageModel
    consume_from: ConsumeFrom
    consume_timestamp: datetime | None
    strategy: Strategy
    pull_batch_size: int
    pull_batch_size_bytes: int
    pull_interval_seconds: float
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue_bytes: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic_bytes: int
    consume_concurrently_max_span: int
    post_subscription_when_pull: bool
    persist_consumer_offset_interval_seconds: float
    local_offset_store_dir: Path | str


@dataclass(frozen=True, kw_only=True)
class MemberSettings:
    """Settings that push and pull consumers share. Defaults are those of Java's push consumer."""

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    # For ConsumeFrom.TIMESTAMP; by default half an hour before the start.
    consume_timestamp: datetime | None = None
    strategy: Strategy = AVERAGELY
    pull_batch_size: int = 32
    pull_batch_size_bytes: int = 256 * 1024
    pull_interval_seconds: float = 0.0
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue_bytes: int = 100 * 1024 * 1024
    # For all queues of this consumer together, divided evenly; -1 means no limit.
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic_bytes: int = -1
    # Maximum distance between the first and the last unconsumed offset of a queue.
    consume_concurrently_max_span: int = 2000
    # Whether each pull request contains the subscription, and not only heartbeats.
    post_subscription_when_pull: bool = False
    persist_consumer_offset_interval_seconds: float = 5.0
    # The directory of offset files of broadcasting consumers.
    local_offset_store_dir: Path | str = LOCAL_DIRECTORY

    def __post_init__(self) -> None:
        _check_positive(self, "pull_batch_size", "pull_batch_size_bytes", "pull_threshold_for_queue")


class PushKeywords(MemberKeywords, total=False):
    """The keyword arguments of push consumers, documented in PushSettings."""

    is_orderly: bool
    consume_thread_max: int
    consume_message_batch_max_size: int
    max_reconsume_times: int
    suspend_current_queue_seconds: float
    auto_commit: bool
    consume_timeout_minutes: float
    await_termination_seconds: float
    enable_trace: bool
    trace_topic: str
    hooks: Sequence[ConsumeHook]


@dataclass(frozen=True, kw_only=True)
class PushSettings(MemberSettings):
    """Settings of push consumers."""

    # Consume each queue in order, one batch at a time; a failed message is retried before the next one.
    is_orderly: bool = False
    # Concurrent calls of the handler: tasks for a coroutine function, threads for a plain function.
    consume_thread_max: int = 20
    # Messages per call of the handler.
    consume_message_batch_max_size: int = 1
    # Retries before a message becomes a dead letter; -1 means 16, or unlimited for orderly consumers.
    max_reconsume_times: int = -1
    # Orderly: pause of a queue after a failure.
    suspend_current_queue_seconds: float = 1.0
    # Orderly: whether SUCCESS commits; otherwise only Consumed.COMMIT does.
    auto_commit: bool = True
    # Messages whose handler takes longer are sent back for a retry, so that they do not block commits.
    consume_timeout_minutes: float = 15.0
    # How long `close` waits for messages that are being consumed.
    await_termination_seconds: float = 20.0
    # Whether to send message traces to `trace_topic`.
    enable_trace: bool = False
    trace_topic: str = TRACE_TOPIC
    hooks: Sequence[ConsumeHook] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive(self, "consume_thread_max", "consume_message_batch_max_size")


class PullKeywords(MemberKeywords, total=False):
    """The keyword arguments of pull consumers, documented in PullSettings."""

    auto_commit: bool
    poll_timeout_seconds: float
    max_poll_records: int


@dataclass(frozen=True, kw_only=True)
class PullSettings(MemberSettings):
    """Settings of pull consumers."""

    # True, because assigned queues may belong to topics that are not in heartbeats.
    post_subscription_when_pull: bool = True

    # Whether to commit, periodically and at the end, the messages returned before the last request for more.
    auto_commit: bool = True
    # The default timeout of `poll`.
    poll_timeout_seconds: float = 5.0
    # The default maximum of messages per `poll`.
    max_poll_records: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive(self, "max_poll_records")


S = TypeVar("S", bound=MemberSettings)


def split_keywords(kind: type[S], options: Options | None, keywords: dict[str, Any]) -> tuple[Options, S]:
    """Split the keyword arguments of a consumer into the shared options and its own settings."""
    names = {field.name for field in dataclasses.fields(kind)}
    own = {name: value for name, value in keywords.items() if name in names}
    shared = {name: value for name, value in keywords.items() if name not in names}
    return options_of(options, **shared), kind(**own)


def _check_positive(settings: MemberSettings, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < 1:
            raise ConfigurationError(f"{name}={getattr(settings, name)} must be at least 1")
