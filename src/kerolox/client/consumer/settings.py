"""How consumers read and consume: what can be set, under Java's names with units, and with Java's defaults."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from kerolox.client.consumer.offsets import LOCAL_DIRECTORY
from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.rebalance import MessageModel
from kerolox.client.consumer.strategies import AVERAGELY, Strategy
from kerolox.client.hooks import ConsumeHook
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.trace import TRACE_TOPIC
from kerolox.errors import ConfigurationError


class MembershipKeywords(Shared, total=False):
    """The keywords that push and pull consumers take; Membership says what they mean."""

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
class Membership:
    """How a member reads. Defaults are those of Java's push consumer."""

    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    # With ConsumeFrom.TIMESTAMP; half an hour ago if not given.
    consume_timestamp: datetime | None = None
    strategy: Strategy = AVERAGELY
    pull_batch_size: int = 32
    pull_batch_size_bytes: int = 256 * 1024
    pull_interval_seconds: float = 0.0
    pull_threshold_for_queue: int = 1000
    pull_threshold_size_for_queue_bytes: int = 100 * 1024 * 1024
    # For all queues of the member together, shared among them; -1 is no bound.
    pull_threshold_for_topic: int = -1
    pull_threshold_size_for_topic_bytes: int = -1
    # How far the last message in hand may lie from the first that is not done.
    consume_concurrently_max_span: int = 2000
    # Whether each pull says what is wanted, and not only heartbeats.
    post_subscription_when_pull: bool = False
    persist_consumer_offset_interval_seconds: float = 5.0
    # Where members that read all keep their offsets.
    local_offset_store_dir: Path | str = LOCAL_DIRECTORY

    def __post_init__(self) -> None:
        _check_positive(self, "pull_batch_size", "pull_batch_size_bytes", "pull_threshold_for_queue")


class PushKeywords(MembershipKeywords, total=False):
    """The keywords that push consumers take; PushSettings says what they mean."""

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
class PushSettings(Membership):
    """How a push consumer consumes."""

    # One message after the other in each queue, and what fails is tried again before the next.
    is_orderly: bool = False
    # How many calls of the handler at once: tasks for a coroutine, threads for a function.
    consume_thread_max: int = 20
    # How many messages one call may get.
    consume_message_batch_max_size: int = 1
    # After how many attempts a message becomes a dead letter; -1 is 16, and without end in order.
    max_reconsume_times: int = -1
    # In order: how long a queue rests after a failure.
    suspend_current_queue_seconds: float = 1.0
    # In order: whether success commits; else only Consumed.COMMIT does.
    auto_commit: bool = True
    # Messages of a handler that takes longer come again, and hold up the others no more.
    consume_timeout_minutes: float = 15.0
    # How long closing waits for what is in hand.
    await_termination_seconds: float = 20.0
    # Whether it is written down, for Java's tools to read, who consumed what and when.
    enable_trace: bool = False
    trace_topic: str = TRACE_TOPIC
    hooks: Sequence[ConsumeHook] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive(self, "consume_thread_max", "consume_message_batch_max_size")


class PullKeywords(MembershipKeywords, total=False):
    """The keywords that pull consumers take; PullSettings says what they mean."""

    auto_commit: bool
    poll_timeout_seconds: float
    max_poll_records: int


@dataclass(frozen=True, kw_only=True)
class PullSettings(Membership):
    """How a pull consumer reads."""

    # Its pulls may be for queues of which no heartbeat speaks.
    post_subscription_when_pull: bool = True

    # Whether what was handed out is committed once more is asked for, every few seconds and at the end.
    auto_commit: bool = True
    # How long `poll` waits if it is not told.
    poll_timeout_seconds: float = 5.0
    # How many messages `poll` gives if it is not told.
    max_poll_records: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive(self, "max_poll_records")


S = TypeVar("S", bound=Membership)


def parted(kind: type[S], options: Options | None, keywords: dict[str, Any]) -> tuple[Options, S]:
    """Returns what was given for all clients, and what for this kind of consumer."""
    names = {field.name for field in dataclasses.fields(kind)}
    own = {name: value for name, value in keywords.items() if name in names}
    shared = {name: value for name, value in keywords.items() if name not in names}
    return options_of(options, **shared), kind(**own)


def _check_positive(settings: Membership, *names: str) -> None:
    for name in names:
        if getattr(settings, name) < 1:
            raise ConfigurationError(f"{name} is {getattr(settings, name)}, at least 1 needed")
