"""Names of topics and groups: validation, system names and namespaces (Validators, NamespaceUtil)."""

import re
from typing import Final

from kerolox.errors import ConfigurationError
from kerolox.message.errors import MessageIllegal

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
TEMPLATE_TOPIC: Final = "TBW102"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"
DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
# The group of messages that the client itself sends, such as retries of a consumer.
INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"

TOPIC_SIZE_MAX: Final = 127
GROUP_SIZE_MAX: Final = 255

NOT_FOR_PRODUCERS: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
_SYSTEM_TOPICS = NOT_FOR_PRODUCERS | {TEMPLATE_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC"}
_SYSTEM_PREFIX = "rmq_sys_"
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
_SYSTEM_GROUPS = frozenset(
    {
        DEFAULT_PRODUCER_GROUP,
        DEFAULT_CONSUMER_GROUP,
        INNER_PRODUCER_GROUP,
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
    }
)
_ALLOWED = re.compile("[%|a-zA-Z0-9_-]+")
_GROUP_TOPICS = (RETRY_PREFIX, DLQ_PREFIX)


def check_topic(topic: str) -> None:
    """Raise MessageIllegal if the topic name is invalid; like Java, before anything is sent."""
    if not _ALLOWED.fullmatch(topic):
        raise MessageIllegal(f"topic {topic[:300]!r} is not a valid name: letters, digits and % | _ - are allowed")
    size_max = GROUP_SIZE_MAX if topic.startswith(_GROUP_TOPICS) else TOPIC_SIZE_MAX
    if len(topic) > size_max:
        raise MessageIllegal(f"topic of {len(topic)} characters exceeds the limit of {size_max}: {topic[:300]!r}")


def check_group(group: str) -> None:
    """Raise ConfigurationError if the group name is invalid."""
    if not _ALLOWED.fullmatch(group):
        raise ConfigurationError(f"group {group[:300]!r} is not a valid name: letters, digits and % | _ - are allowed")
    if len(group) > GROUP_SIZE_MAX:
        raise ConfigurationError(
            f"group of {len(group)} characters exceeds the limit of {GROUP_SIZE_MAX}: {group[:300]!r}"
        )


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def wrap(namespace: str | None, name: str) -> str:
    """Return the topic or group with the namespace; system topics and groups have none."""
    if not namespace or is_system(name):
        return name
    prefix, bare = _split_prefix(name)
    return name if bare.startswith(f"{namespace}%") else f"{prefix}{namespace}%{bare}"


def unwrap(namespace: str | None, name: str) -> str:
    """Return the topic or group without the namespace."""
    if not namespace:
        return name
    prefix, bare = _split_prefix(name)
    return prefix + bare.removeprefix(f"{namespace}%")


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in _GROUP_TOPICS:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def is_system(name: str) -> bool:
    """Whether it is a system topic or group."""
    return (
        name in _SYSTEM_TOPICS
        or name in _SYSTEM_GROUPS
        or name.startswith((_SYSTEM_PREFIX, _SYSTEM_GROUP_PREFIX))
        or name.endswith(REPLY_TOPIC_SUFFIX)
    )
