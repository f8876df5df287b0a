"""Packing and unpacking hosts."""

from __future__ import annotations

import pytest

from kerolox.errors import ConfigurationError
from kerolox.message import hosts


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("192.168.1.20:10911", "C0A80114 00002A9F"),
        ("0.0.0.0:0", "00000000 00000000"),
        ("[::1]:65535", "00000000000000000000000000000001 0000FFFF"),
        ("[fd00::2]:10911", "FD000000000000000000000000000002 00002A9F"),
    ],
)
def test_an_address_is_packed_and_unpacked_again(text: str, digits: str) -> None:
    packed = hosts.parse(text)

    assert packed == bytes.fromhex(digits)
    assert hosts.to_text(packed) == text


@pytest.mark.parametrize("ip", ["::ffff:10.0.0.1", "::FFFF:a00:1", "10.0.0.1"])
def test_an_ipv4_mapped_address_is_packed_as_ipv4(ip: str) -> None:
    assert hosts.pack(ip, 1) == bytes.fromhex("0A000001 00000001")


def test_the_zone_of_an_address_is_left_out() -> None:
    assert hosts.pack("fe80::1%eth0", 1) == hosts.pack("fe80::1", 1)


@pytest.mark.parametrize(
    "text",
    [
        *("", "127.0.0.1", "127.0.0.1:", ":10911", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:１"),
        *("localhost:10911", "::1:10911", "[::1]", "[::1:10911", "1.2.3:10911", "[127.0.0.1]:10911", "[zz::]:1"),
    ],
)
def test_an_invalid_address_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ConfigurationError):
        hosts.parse(text)


def test_a_port_of_more_than_sixteen_bits_is_returned_unchanged() -> None:
    assert hosts.to_text(bytes.fromhex("7F000001 00012345")) == "127.0.0.1:74565"
