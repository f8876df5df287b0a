"""Limits of records at their exact values."""

import pytest

from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.records.record import (
    PROPERTIES_SIZE_MAX,
    check_properties,
    decode,
    encode,
)


def properties_of_size(size: int) -> bytes:
    return b"k\x01" + b"v" * (size - 3) + b"\x02"


def test_properties_of_exactly_the_maximum_size_fit_into_a_record() -> None:
    properties = properties_of_size(PROPERTIES_SIZE_MAX)

    check_properties(properties)
    assert decode(bytes(encode(Message("orders", b"body", properties)))).properties == properties
    for size in (PROPERTIES_SIZE_MAX + 1, PROPERTIES_SIZE_MAX + 2):
        with pytest.raises(MessageIllegal, match=f"properties of {size} bytes"):
            check_properties(properties_of_size(size))
        with pytest.raises(MessageIllegal, match=f"properties of {size} bytes"):
            encode(Message("orders", b"body", properties_of_size(size)))
