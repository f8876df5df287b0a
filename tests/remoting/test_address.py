"""Parsing and formatting of addresses."""

import pytest

from kerolox.errors import ConfigurationError
from kerolox.remoting.address import format_address, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        (" broker-a.example:10911 ", ("broker-a.example", 10911)),
        ("[::1]:9876", ("::1", 9876)),
        ("[2001:db8::9%eth0]:1", ("2001:db8::9%eth0", 1)),
        ("host:0", ("host", 0)),
        ("host:65535", ("host", 65535)),
    ],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        ":9876",
        "host:",
        "host:65536",
        "host:-1",
        "host:x",
        "host:٣",
        "[::1:80",
        "::1]:80",
        "h:" + "9" * 5000,
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not an address: expected host:port, such as 127\.0\.0\.1:9876"):
        parse_address(text)


def test_a_list_is_split_at_semicolons_without_duplicates() -> None:
    assert parse_addresses(" a:1;b:2 ;;[::1]:3;a:1;") == ["a:1", "b:2", "[::1]:3"]
    assert parse_addresses(" ; ") == []


def test_a_list_with_one_bad_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'b' is not an address"):
        parse_addresses("a:1;b")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (("127.0.0.1", 9876), "127.0.0.1:9876"),
        (("::1", 9876, 0, 0), "[::1]:9876"),
        ("/tmp/socket", "/tmp/socket"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_sockets_address_is_shown_as_people_write_it(address: object, text: str) -> None:
    assert format_address(address) == text
