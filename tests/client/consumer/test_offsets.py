"""How far a group has come, at its brokers or in a file of Java's."""

from pathlib import Path

import pytest

from kerolox.client.consumer.offsets import BrokerOffsets, LocalOffsets, as_java_writes, local_path
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


async def test_what_was_consumed_later_is_not_taken_back_by_what_was_committed_later(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsets(brokers, "group")

    offsets.advance(QUEUE, 8)
    offsets.advance(QUEUE, 5)

    assert offsets.get(QUEUE) == 8


async def test_an_offset_can_be_set_back_on_purpose(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsets(brokers, "group")
    offsets.advance(QUEUE, 8)

    offsets.set(QUEUE, 5)

    assert offsets.of_topic("orders") == {QUEUE: 5}


async def test_the_broker_of_a_queue_says_where_to_go_on(brokers: FakeBrokers) -> None:
    brokers.answers[QueryConsumerOffset] = lambda request: OffsetFound(offset=42)

    assert await BrokerOffsets(brokers, "group").stored(OTHER) == 42
    assert brokers.asked[0][0] == "b:10911"


async def test_a_group_that_was_never_there_has_no_offset(brokers: FakeBrokers) -> None:
    brokers.answers[QueryConsumerOffset] = lambda request: QueryNotFound("Not found")

    assert await BrokerOffsets(brokers, "group").stored(QUEUE) is None


async def test_that_nobody_can_be_asked_is_not_taken_for_a_new_group(brokers: FakeBrokers) -> None:
    brokers.addresses.clear()

    with pytest.raises(ConnectFailed, match="broker-a"):
        await BrokerOffsets(brokers, "group").stored(QUEUE)


async def test_brokers_are_told_only_what_is_new_and_only_of_the_queues_in_use(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsets(brokers, "group")
    offsets.advance(QUEUE, 8)
    offsets.advance(OTHER, 9)

    await offsets.persist([QUEUE])
    await offsets.persist([QUEUE])

    assert brokers.told == [("a:10911", updated(QUEUE, 8))]


async def test_the_last_offsets_are_confirmed_and_a_failure_does_not_keep_the_others_back(
    brokers: FakeBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = BrokerOffsets(brokers, "group")
    offsets.advance(QUEUE, 8)
    offsets.advance(OTHER, 9)
    brokers.answers[UpdateConsumerOffset] = lambda request: SystemBusy("later") if request.queue_id == 3 else None

    await offsets.persist([QUEUE, OTHER], is_last=True)

    assert brokers.asked == [("a:10911", updated(QUEUE, 8)), ("b:10911", updated(OTHER, 9))]
    assert "was not stored" in caplog.text


async def test_a_queue_that_is_gone_is_told_anew_when_it_comes_back(brokers: FakeBrokers) -> None:
    offsets = BrokerOffsets(brokers, "group")
    offsets.advance(QUEUE, 8)
    await offsets.persist([QUEUE])

    offsets.forget(QUEUE)
    offsets.advance(QUEUE, 8)
    await offsets.persist([QUEUE])

    assert len(brokers.told) == 2


# In a file


def test_the_file_is_written_as_java_writes_it() -> None:
    assert as_java_writes({QUEUE: 1368, OTHER: 7}) == JAVA
    assert as_java_writes({}) == b'{\n\t"offsetTable":{}\n}'


async def test_a_file_of_java_is_read(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(JAVA)
    offsets = LocalOffsets(path)

    await offsets.load()

    assert offsets.of_topic("orders") == {QUEUE: 1368, OTHER: 7}
    assert await offsets.stored(QUEUE) == 1368


async def test_what_was_written_is_there_after_a_restart_with_the_version_before_beside_it(path: Path) -> None:
    offsets = LocalOffsets(path)
    offsets.advance(QUEUE, 1368)
    await offsets.persist([QUEUE])
    offsets.advance(OTHER, 7)

    await offsets.persist([OTHER])

    assert path.read_bytes() == JAVA
    assert b"broker-b" not in path.with_name("offsets.json.bak").read_bytes()


async def test_a_damaged_file_is_read_from_the_one_before_it(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(JAVA[:40])
    path.with_name("offsets.json.bak").write_bytes(JAVA)
    offsets = LocalOffsets(path)

    await offsets.load()

    assert offsets.get(QUEUE) == 1368


async def test_if_both_are_damaged_the_member_does_not_begin_anew_unasked(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(JAVA[:40])
    path.with_name("offsets.json.bak").write_bytes(b"{")

    with pytest.raises(ProtocolError):
        await LocalOffsets(path).load()


async def test_without_a_file_nothing_is_known(path: Path) -> None:
    offsets = LocalOffsets(path)

    await offsets.load()

    assert await offsets.stored(QUEUE) is None


async def test_a_disk_that_does_not_write_is_survived(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class FullDisk(RealDisk):
        def write(self, path: Path, data: bytes) -> None:
            raise OSError(28, "No space left on device")

    offsets = LocalOffsets(path, FullDisk())
    offsets.advance(QUEUE, 1)

    await offsets.persist([QUEUE])

    assert "No space left" in caplog.text
