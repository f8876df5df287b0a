import pytest

from kerolox.client.resource_names import check_group, check_topic, unwrap, wrap
from kerolox.errors import ConfigurationError
from kerolox.message.errors import MessageIllegal


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%group", "%RETRY%ns%group"),
        ("%DLQ%group", "%DLQ%ns%group"),
        ("ns%orders", "ns%orders"),
        ("TBW102", "TBW102"),
        ("rmq_sys_TRACE_DATA_r", "rmq_sys_TRACE_DATA_r"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("DefaultCluster_REPLY_TOPIC", "DefaultCluster_REPLY_TOPIC"),
    ],
)
def test_a_namespace_wraps_all_but_system_names(name: str, wrapped: str) -> None:
    assert wrap("ns", name) == wrapped
    assert unwrap("ns", wrapped) == name.replace("ns%", "")


def test_without_a_namespace_names_are_unchanged() -> None:
    assert wrap(None, "orders") == unwrap(None, "orders") == "orders"


@pytest.mark.parametrize("topic", ["", "with space", "x" * 128, "ümlaut", "a.b"])
def test_an_invalid_topic_name_is_refused(topic: str) -> None:
    with pytest.raises(MessageIllegal, match="topic"):
        check_topic(topic)


def test_retry_and_dlq_topics_may_be_longer() -> None:
    check_topic("%RETRY%" + "g" * 200)


@pytest.mark.parametrize("group", ["", "with space", "x" * 256])
def test_an_invalid_group_name_is_refused(group: str) -> None:
    with pytest.raises(ConfigurationError, match="group"):
        check_group(group)
