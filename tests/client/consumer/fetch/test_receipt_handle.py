"""Receipt handles of popped messages."""

import pytest

from kerolox.client.consumer.fetch.receipt_handle import ReceiptHandle, parse_order_count_info, receipt_handles
from kerolox.client.errors import ClientError
from kerolox.message.message import Message
from kerolox.wire.headers.pop import InvisibleTimeChanged, Popped

TEXT = "100 1700000000000 60000 3 0 broker-a 2 105"


def popped(info: str | None) -> Popped:
    return Popped(pop_time=1700000000000, invisible_time=60000, revive_qid=3, rest_num=0, start_offset_info=info)


def test_a_receipt_handle_survives_a_round_trip() -> None:
    receipt = ReceiptHandle.parse(TEXT)

    assert (receipt.broker_name, receipt.queue_id, receipt.queue_offset) == ("broker-a", 2, 105)
    assert str(receipt) == TEXT


@pytest.mark.parametrize("text", [None, "", "1 2 3", "a b c d 0 broker-a 2 105", TEXT + " 7"])
def test_a_malformed_receipt_handle_is_refused(text: str | None) -> None:
    with pytest.raises(ClientError, match="is not a receipt handle"):
        ReceiptHandle.parse(text)


def test_a_receipt_handle_contains_the_start_offset_of_the_pop() -> None:
    records = [
        Message("orders", b"", queue_id=2, queue_offset=105),
        Message("%RETRY%group+orders", b"", queue_id=0, queue_offset=8),
    ]

    made = receipt_handles(popped("0 2 100;2 0 7"), records, "broker-a")

    assert made == [TEXT, "7 1700000000000 60000 3 2 broker-a 0 8"]


def test_a_receipt_handle_from_the_broker_is_kept() -> None:
    record = Message("orders", b"", b"POP_CK\x01" + TEXT.encode() + b"\x02", queue_id=9, queue_offset=9)

    assert receipt_handles(popped("0 9 9"), [record], "broker-a") == [TEXT]


def test_the_start_offset_defaults_to_the_first_message() -> None:
    records = [Message("orders", b"", queue_id=2, queue_offset=offset) for offset in (100, 105)]

    assert receipt_handles(popped(None), records, "broker-a")[1] == TEXT


@pytest.mark.parametrize(
    ("mark", "topic"), [("0", "orders"), ("1", "%RETRY%group_orders"), ("2", "%RETRY%group+orders")]
)
def test_the_mark_selects_the_topic(mark: str, topic: str) -> None:
    assert ReceiptHandle(100, 1, 2, 3, mark, "broker-a", 2, 105).topic("orders", "group") == topic


def test_changing_the_invisible_time_changes_the_receipt_handle() -> None:
    changed = InvisibleTimeChanged(pop_time=7, invisible_time=8, revive_qid=1)

    assert str(ReceiptHandle.parse(TEXT).renewed(changed)) == "105 7 8 1 0 broker-a 2 105"


def record(queue_id: int, queue_offset: int) -> Message:
    return Message("orders", b"", queue_id=queue_id, queue_offset=queue_offset)


def test_reconsume_times_are_given_per_message_or_per_queue() -> None:
    times = parse_order_count_info("0 3 1;0 qo3%100 2")

    assert [times.of(record(3, offset)) for offset in (99, 100)] == [1, 2]
    assert times.of(record(4, 100)) == 0
    assert not parse_order_count_info(None)
