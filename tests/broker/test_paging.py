"""A table in pieces."""

from kerolox.broker.paging import page
from kerolox.wire.bodies.topics import DataVersion

TABLE = {name: name.upper() for name in ("c", "a", "b", "d")}
VERSION = DataVersion(counter=3, timestamp=7)
SAME, OTHER = VERSION.encode().decode(), DataVersion().encode().decode()


def test_who_asks_for_no_part_is_given_everything() -> None:
    assert page(TABLE, VERSION, None, None, None, 2) == TABLE


def test_pieces_come_in_the_order_of_names_and_no_larger_than_allowed() -> None:
    assert list(page(TABLE, VERSION, SAME, 0, 9, 2)) == ["a", "b"]
    assert list(page(TABLE, VERSION, SAME, 2, None, 2)) == ["c", "d"]
    assert list(page(TABLE, VERSION, SAME, 1, 1, 2)) == ["b"]
    assert list(page(TABLE, VERSION, SAME, 4, 9, 2)) == []


def test_who_has_another_version_begins_again() -> None:
    assert list(page(TABLE, VERSION, OTHER, 2, 2, 2)) == ["a", "b"]
    assert list(page(TABLE, VERSION, None, 2, 2, 2)) == ["a", "b"]
    assert list(page(TABLE, VERSION, " ", 2, 2, 2)) == ["a", "b"]


def test_numbers_that_cannot_be_are_taken_for_the_nearest_that_can() -> None:
    assert list(page(TABLE, VERSION, SAME, -5, 1, 2)) == ["a"]
    assert list(page(TABLE, VERSION, SAME, 0, -1, 2)) == []
