from datetime import UTC, datetime

import pytest

from kerolox.client.messages import SendResult, SendStatus, received
from kerolox.message import hosts, properties, sysflag
from kerolox.message.compression import compress
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message as Record
from kerolox.message.sysflag import CompressionType
from kerolox.wire.bodies.queues import MessageQueue

QUEUE = MessageQueue("broker-a", 3, "orders")


def test_a_received_message_has_the_fields_of_its_record() -> None:
    record = Record(
        "orders",
        b"body",
        properties.to_bytes({"TAGS": "paid", "KEYS": "k1 k2", "UNIQ_KEY": "ID1", "color": "red"}),
        queue_id=3,
        flag=7,
        born_timestamp=1_700_000_000_000,
        born_host=hosts.parse("10.0.0.1:1234"),
        store_timestamp=1_700_000_000_500,
        store_host=hosts.parse("10.0.0.2:10911"),
        reconsume_times=2,
        queue_offset=41,
        physical_offset=1000,
    )

    message = received(record, QUEUE)

    assert (message.topic, message.body, message.tag, message.keys) == ("orders", b"body", "paid", ["k1", "k2"])
    assert message.properties["color"] == "red"
    assert (message.message_id, message.offset_id) == ("ID1", "0A00000200002A9F00000000000003E8")
    assert (message.queue, message.queue_offset, message.flag, message.reconsume_times) == (QUEUE, 41, 7, 2)
    assert message.born_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert (message.stored_at - message.born_at).total_seconds() == 0.5
    assert (message.born_host, message.store_host) == ("10.0.0.1:1234", "10.0.0.2:10911")


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_compressed_body_is_decompressed(kind: CompressionType) -> None:
    body = b"so much of the same " * 1000
    record = Record("orders", compress(body, kind), sys_flag=sysflag.with_compression(0, kind))

    assert received(record, QUEUE).body == body


def test_a_damaged_body_raises() -> None:
    with pytest.raises(CompressionError):
        received(Record("orders", b"no zlib", sys_flag=sysflag.COMPRESSED), QUEUE)


def test_the_topic_may_differ_from_that_of_the_record() -> None:
    assert received(Record("%RETRY%group", b"body"), QUEUE, "orders").topic == "orders"


def test_the_ids_of_a_batch_are_split() -> None:
    result = SendResult(SendStatus.OK, "A,B", "C,D", QUEUE, 0)

    assert (result.message_ids, result.offset_ids) == (["A", "B"], ["C", "D"])
