"""Limits of records at their exact values."""

import pytest

from kerolox.message import hosts
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.records.record import (
    PROPERTIES_SIZE_MAX,
    Row,
    check_properties,
    decode,
    encode,
    encode_runs,
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


@pytest.mark.parametrize("store_host", [hosts.pack("192.0.2.1", 10911), hosts.pack("2001:db8::1", 10911)])
@pytest.mark.parametrize("born_host", [hosts.pack("192.0.2.7", 5555), hosts.pack("2001:db8::7", 5555)])
def test_runs_of_records_have_hosts_of_either_family(store_host: bytes, born_host: bytes) -> None:
    ((records, starts),) = encode_runs(
        store_host, [(("orders", 1), 2, 0, 3, born_host, 0, b"body", b"k\x01v\x02")], 4096
    )

    message = decode(bytes(records))

    assert list(starts) == [0]
    assert (message.store_host, message.born_host, message.body) == (store_host, born_host, b"body")


def test_a_run_of_records_has_at_most_the_given_size() -> None:
    host = hosts.pack("192.0.2.1", 10911)
    row: Row = (("orders", 1), 2, 0, 3, host, 0, b"body", b"k\x01v\x02")
    size = len(encode_runs(host, [row], 4096)[0][0])

    assert [starts for _, starts in encode_runs(host, [row] * 3, 2 * size)] == [(0, size), (0,)]
    assert [starts for _, starts in encode_runs(host, [row] * 3, 2 * size - 1)] == [(0,)] * 3
