"""Receipt handles and names of retry topics."""

import pytest

from kerolox.broker.pop.receipt_handle import (
    ReceiptHandle,
    mark_of,
    normal_topic,
    offsets_info,
    parse_receipt,
    real_topic,
    start_info,
)
from kerolox.errors import SystemFailure


def test_a_receipt_handle_survives_formatting_and_parsing() -> None:
    text = "40 1700000000123 60000 5 1 broker-a 2 41"
    assert parse_receipt(text) == ReceiptHandle(40, 1_700_000_000_123, 60_000, 5, "1", "broker-a", 2, 41)
    assert str(parse_receipt(text)) == text
    assert parse_receipt("40 1700000000123 60000 999 0 broker-a").is_ordered


@pytest.mark.parametrize("text", ["", "1 2 3", "a 2 3 4 0 b 1 1", "1 2 3 -4 0 b 1 1", f"1 {'9' * 5000} 3 4 0 b 1 1"])
def test_an_invalid_receipt_handle_is_refused(text: str) -> None:
    with pytest.raises(SystemFailure):
        parse_receipt(text)


def test_a_retry_topic_is_mapped_back_to_its_topic() -> None:
    for mark, name in (("1", "%RETRY%g_orders"), ("2", "%RETRY%g+orders")):
        assert real_topic("orders", "g", mark) == name
        assert mark_of(name) == mark
        assert normal_topic(name, "g") == "orders"
    assert normal_topic("orders", "g") == real_topic("orders", "g", "0") == "orders"
    with pytest.raises(SystemFailure):
        real_topic("orders", "g", "7")


def test_offset_fields_of_a_response_have_the_format_of_java() -> None:
    assert start_info("%RETRY%g+t", 0, 7) == "2 0 7"
    assert offsets_info("t", 3, [7, 9]) == "0 3 7,9"
