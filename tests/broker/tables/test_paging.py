"""Pages of a table."""

from kerolox.broker.tables.paging import page
from kerolox.wire.bodies.topics import DataVersion

TABLE = {name: name.upper() for name in ("c", "a", "b", "d")}
VERSION = DataVersion(counter=3, timestamp=7)
SAME, OTHER = VERSION.encode().decode(), DataVersion().encode().decode()


def test_without_arguments_the_whole_table_is_returned() -> None:
    assert page(TABLE, VERSION, None, None, None, 2) == TABLE


def test_pages_are_in_order_of_names_and_limited_in_size() -> None:
    assert list(page(TABLE, VERSION, SAME, 0, 9, 2)) == ["a", "b"]
    assert list(page(TABLE, VERSION, SAME, 2, None, 2)) == ["c", "d"]
    assert list(page(TABLE, VERSION, SAME, 1, 1, 2)) == ["b"]
    assert list(page(TABLE, VERSION, SAME, 4, 9, 2)) == []


def test_a_client_with_another_version_gets_the_first_page() -> None:
    assert list(page(TABLE, VERSION, OTHER, 2, 2, 2)) == ["a", "b"]
    assert list(page(TABLE, VERSION, None, 2, 2, 2)) == ["a", "b"]
    assert list(page(TABLE, VERSION, " ", 2, 2, 2)) == ["a", "b"]


def test_arguments_out_of_range_are_clamped() -> None:
    assert list(page(TABLE, VERSION, SAME, -5, 1, 2)) == ["a"]
    assert list(page(TABLE, VERSION, SAME, 0, -1, 2)) == []
