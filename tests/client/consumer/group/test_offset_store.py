"""Offset stores: on brokers, and in Java's local file."""

from pathlib import Path

import pytest

from kerolox.client.consumer.group.offset_store import BrokerOffsetStore, LocalOffsetStore, encode_java_json, local_path
from kerolox.errors import ConnectFailed, ProtocolError, QueryNotFound, SystemBusy
from kerolox.runtime.files import RealDisk
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.offsets import OffsetFound, QueryConsumerOffset, UpdateConsumerOffset
from tests.client.consumer.fake_brokers import FakeBrokers

QUEUE, OTHER = MessageQueue("broker-a", 3, "orders"), MessageQueue("broker-b", 0, "orders")

# As a Java client of 4.9.8 lays it out.
JAVA = b"""{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":3,
			"topic":"orders"
		}:1368,{
			"brokerName":"broker-b",
			"queueId":0,
			"topic":"orders"
		}:7
	}
}"""


def updated(queue: MessageQueue, offset: int) -> UpdateConsumerOffset:
    return UpdateConsumerOffset(
        consumer_group="group", topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
    )


@pytest.fixture
def brokers() -> FakeBrokers:
    return FakeBrokers()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return local_path(tmp_path, "10.0.0.1@DEFAULT", "group")


# At the brokers


async def test_advance_ignores_a_lower_offset(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsetStore(brokers, "group")

    offsets.advance(QUEUE, 8)
    offsets.advance(QUEUE, 5)

    assert offsets.get(QUEUE) == 8


async def test_set_accepts_a_lower_offset(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsetStore(brokers, "group")
    offsets.advance(QUEUE, 8)

    offsets.set(QUEUE, 5)

    assert offsets.of_topic("orders") == {QUEUE: 5}


async def test_the_committed_offset_comes_from_the_broker_of_the_queue(brokers: FakeBrokers) -> None:
    brokers.answers[QueryConsumerOffset] = lambda request: OffsetFound(offset=42)

    assert await BrokerOffsetStore(brokers, "group").committed(OTHER) == 42
    assert brokers.asked[0][0] == "b:10911"


async def test_a_new_group_has_no_committed_offset(brokers: FakeBrokers) -> None:
    brokers.answers[QueryConsumerOffset] = lambda request: QueryNotFound("Not found")

    assert await BrokerOffsetStore(brokers, "group").committed(QUEUE) is None


async def test_an_unknown_broker_is_not_taken_for_a_new_group(brokers: FakeBrokers) -> None:
    brokers.addresses.clear()

    with pytest.raises(ConnectFailed, match="broker-a"):
        await BrokerOffsetStore(brokers, "group").committed(QUEUE)


async def test_only_changed_offsets_of_assigned_queues_are_sent(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsetStore(brokers, "group")
    offsets.advance(QUEUE, 8)
    offsets.advance(OTHER, 9)

    await offsets.persist([QUEUE])
    await offsets.persist([QUEUE])

    assert brokers.oneway_requests == [("a:10911", updated(QUEUE, 8))]


async def test_persist_waits_for_responses_and_continues_after_a_failure(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = BrokerOffsetStore(brokers, "group")
    offsets.advance(QUEUE, 8)
    offsets.advance(OTHER, 9)
    brokers.answers[UpdateConsumerOffset] = lambda request: SystemBusy("later") if request.queue_id == 3 else None

    await offsets.persist([QUEUE, OTHER], wait_for_response=True)

    assert brokers.asked == [("a:10911", updated(QUEUE, 8)), ("b:10911", updated(OTHER, 9))]
    assert "was not committed" in caplog.text


async def test_a_forgotten_queue_is_sent_again(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsetStore(brokers, "group")
    offsets.advance(QUEUE, 8)
    await offsets.persist([QUEUE])

    offsets.forget(QUEUE)
    offsets.advance(QUEUE, 8)
    await offsets.persist([QUEUE])

    assert len(brokers.oneway_requests) == 2


# In a file


def test_the_file_has_java_s_format() -> None:
    assert encode_java_json({QUEUE: 1368, OTHER: 7}) == JAVA
    assert encode_java_json({}) == b'{\n\t"offsetTable":{}\n}'


async def test_a_file_of_java_is_read(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(JAVA)
    offsets = LocalOffsetStore(path)

    await offsets.load()

    assert offsets.of_topic("orders") == {QUEUE: 1368, OTHER: 7}
    assert await offsets.committed(QUEUE) == 1368


async def test_offsets_survive_a_restart_and_the_previous_file_is_kept(path: Path) -> None:
    offsets = LocalOffsetStore(path)
    offsets.advance(QUEUE, 1368)
    await offsets.persist([QUEUE])
    offsets.advance(OTHER, 7)

    await offsets.persist([OTHER])

    assert path.read_bytes() == JAVA
    assert b"broker-b" not in path.with_name("offsets.json.bak").read_bytes()


async def test_the_backup_is_read_if_the_file_is_damaged(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(JAVA[:40])
    path.with_name("offsets.json.bak").write_bytes(JAVA)
    offsets = LocalOffsetStore(path)

    await offsets.load()

    assert offsets.get(QUEUE) == 1368


async def test_two_damaged_files_are_an_error(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(JAVA[:40])
    path.with_name("offsets.json.bak").write_bytes(b"{")

    with pytest.raises(ProtocolError):
        await LocalOffsetStore(path).load()


async def test_a_missing_file_has_no_offsets(path: Path) -> None:
    offsets = LocalOffsetStore(path)

    await offsets.load()

    assert await offsets.committed(QUEUE) is None


async def test_a_failed_write_is_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class FullDisk(RealDisk):
        def write(self, path: Path, data: bytes) -> None:
            raise OSError(28, "No space left on device")

    offsets = LocalOffsetStore(path, FullDisk())
    offsets.advance(QUEUE, 1)

    await offsets.persist([QUEUE])

    assert "No space left" in caplog.text
