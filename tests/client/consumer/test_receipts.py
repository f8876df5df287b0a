"""Receipts of popped messages."""

import pytest

from kerolox.client.consumer.receipts import Receipt, receipts, times_of
from kerolox.client.errors import ClientError
from kerolox.message.message import Message
from kerolox.wire.headers.pop import InvisibleTimeChanged, Popped

TEXT = "100 1700000000000 60000 3 0 broker-a 2 105"


def popped(info: str | None) -> Popped:
    return Popped(pop_time=1700000000000, invisible_time=60000, revive_qid=3, rest_num=0, start_offset_info=info)


def test_a_receipt_is_read_and_written_as_it_was() -> None:
    receipt = Receipt.parse(TEXT)

    assert (receipt.broker_name, receipt.queue_id, receipt.queue_offset) == ("broker-a", 2, 105)
    assert str(receipt) == TEXT


@pytest.mark.parametrize("text", [None, "", "1 2 3", "a b c d 0 broker-a 2 105", TEXT + " 7"])
def test_what_is_no_receipt_is_refused(text: str | None) -> None:
    with pytest.raises(ClientError, match="is no receipt"):
        Receipt.parse(text)


def test_a_receipt_is_made_of_where_the_pop_began() -> None:
    records = [
        Message("orders", b"", queue_id=2, queue_offset=105),
        Message("%RETRY%group+orders", b"", queue_id=0, queue_offset=8),
    ]

    made = receipts(popped("0 2 100;2 0 7"), records, "broker-a")

    assert made == [TEXT, "7 1700000000000 60000 3 2 broker-a 0 8"]


def test_a_receipt_that_the_broker_wrote_is_kept() -> None:
    record = Message("orders", b"", b"POP_CK\x01" + TEXT.encode() + b"\x02", queue_id=9, queue_offset=9)

    assert receipts(popped("0 9 9"), [record], "broker-a") == [TEXT]


def test_without_the_brokers_word_a_pop_begins_with_its_first_message() -> None:
    records = [Message("orders", b"", queue_id=2, queue_offset=offset) for offset in (100, 105)]

    assert receipts(popped(None), records, "broker-a")[1] == TEXT


@pytest.mark.parametrize(
    ("mark", "topic"), [("0", "orders"), ("1", "%RETRY%group_orders"), ("2", "%RETRY%group+orders")]
)
def test_the_mark_says_in_which_topic_it_lies(mark: str, topic: str) -> None:
    assert Receipt(100, 1, 2, 3, mark, "broker-a", 2, 105).topic("orders", "group") == topic


def test_a_changed_time_makes_another_receipt() -> None:
    changed = InvisibleTimeChanged(pop_time=7, invisible_time=8, revive_qid=1)

    assert str(Receipt.parse(TEXT).renewed(changed)) == "105 7 8 1 0 broker-a 2 105"


def record(queue_id: int, queue_offset: int) -> Message:
    return Message("orders", b"", queue_id=queue_id, queue_offset=queue_offset)


def test_how_often_a_message_came_in_order_is_said_of_it_or_of_its_queue() -> None:
    times = times_of("0 3 1;0 qo3%100 2")

    assert [times.of(record(3, offset)) for offset in (99, 100)] == [1, 2]
    assert times.of(record(4, 100)) == 0
    assert not times_of(None)
