"""The audit log of a broker: changes, and attempts that were refused or failed."""

import errno
from pathlib import Path
from typing import Any

import pytest

from kerolox.errors import AnswerError
from kerolox.runtime.files import RealDisk
from kerolox.store.tables import TOPICS
from kerolox.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList, TopicConfigList
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.header import Request
from kerolox.wire.headers import broker as h
from kerolox.wire.headers.offsets import ResetOffset
from tests.broker.brokers import BrokerFixture, running
from tests.broker.processors.admin.test_topics import creation

SYSTEM_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"


def audit(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the audit log, without the requester."""
    lines = [record.getMessage() for record in caplog.records if record.name == "kerolox.remoting.audit"]
    assert all(line.startswith("127.0.0.1:") for line in lines)
    return [line.partition(": ")[2] for line in lines]


def topics(*names: str) -> bytes:
    return TopicConfigList([TopicConfig(topic_name=name) for name in names]).encode()


def groups(*names: str) -> bytes:
    return SubscriptionGroupList([SubscriptionGroupConfig(group_name=name) for name in names]).encode()


def resetting(topic: str) -> ResetOffset:
    return ResetOffset(topic=topic, group="readers", timestamp=7, is_force=True)


@pytest.mark.parametrize(
    ("request_", "body", "expected"),
    [
        (creation("bills"), b"", "create or change topic bills: done"),
        (h.UpdateAndCreateTopicList(), topics("a", "b"), "create or change 2 topics: a, b: done"),
        (h.DeleteTopicInBroker(topic="orders"), b"", "delete topic orders: done"),
        (
            h.UpdateAndCreateSubscriptionGroup(),
            SubscriptionGroupConfig(group_name="writers").encode(),
            "create or change group writers: done",
        ),
        (h.UpdateAndCreateSubscriptionGroupList(), groups("a", "b"), "create or change 2 groups: a, b: done"),
        (h.DeleteSubscriptionGroup(group_name="readers"), b"", "delete group readers: done"),
        (resetting("orders"), b"", "reset offsets of group readers on topic orders to timestamp 7: done"),
        (
            h.UpdateBrokerConfig(),
            b"traceOn=false\nnobodyKnows=1",
            "change configuration: traceOn=false (ignored, unknown: nobodyKnows): done",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else "",
)
async def test_a_change_is_logged_as_done(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture, request_: Request[Any], body: bytes, expected: str
) -> None:
    await broker.call(creation("orders"))
    await broker.call(h.UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name="readers").encode())
    caplog.clear()
    caplog.set_level("INFO", "kerolox.remoting.audit")

    await broker.call(request_, body)

    assert audit(caplog) == [expected]


@pytest.mark.parametrize(
    ("request_", "body", "expected"),
    [
        (creation(SYSTEM_TOPIC), b"", f"create or change topic {SYSTEM_TOPIC}: refused: The topic"),
        (creation("bills", perm=99), b"", "create or change topic bills: refused: invalid perm 99"),
        (creation("bills", attributes="no sign"), b"", "create or change topic bills: refused: "),
        (h.UpdateAndCreateTopicList(), topics("a", "no/name"), "create or change 2 topics: a, no/name: refused: "),
        (h.DeleteTopicInBroker(topic=SYSTEM_TOPIC), b"", f"delete topic {SYSTEM_TOPIC}: refused: The topic"),
        (
            h.UpdateAndCreateSubscriptionGroup(),
            SubscriptionGroupConfig(group_name="no/name").encode(),
            "create or change group no/name: refused: ",
        ),
        (
            h.UpdateAndCreateSubscriptionGroupList(),
            groups("a", "no/name"),
            "create or change 2 groups: a, no/name: refused: ",
        ),
        (resetting("nowhere"), b"", "reset offsets of group readers on topic nowhere to timestamp 7: refused: Topic"),
        (h.UpdateBrokerConfig(), b"listenPort=1", "change configuration: listenPort=1: refused: listenPort cannot"),
        (h.UpdateBrokerConfig(), b"fileReservedTime=x", "change configuration: fileReservedTime=x: refused: "),
    ],
)
async def test_a_refused_attempt_is_logged_as_refused_and_not_as_a_change(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture, request_: Request[Any], body: bytes, expected: str
) -> None:
    caplog.set_level("INFO")

    with pytest.raises(AnswerError):
        await broker.call(request_, body)

    (line,) = audit(caplog)
    assert line.startswith(expected)


async def test_a_change_that_cannot_be_saved_is_logged_as_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as broker:
        write = RealDisk.write

        def full(disk: RealDisk, path: Path, content: bytes) -> None:
            if path.name.startswith(TOPICS):
                raise OSError(errno.ENOSPC, "No space left on device")
            write(disk, path, content)

        monkeypatch.setattr(RealDisk, "write", full)
        with pytest.raises(AnswerError, match="not kept"):
            await broker.call(creation("orders"))
        monkeypatch.undo()

    (line,) = audit(caplog)
    assert line.startswith("create or change topic orders: failed: changed, but not kept over a restart")
