"""What operators are told."""

from kerolox.admin import PartlyDone
from kerolox.errors import NoPermission


def test_what_was_done_in_part_says_where_it_failed_and_why() -> None:
    error = PartlyDone("UPDATE_BROKER_CONFIG", {"broker-a": None}, {"broker-b": NoPermission("not this key")})

    assert str(error) == ("UPDATE_BROKER_CONFIG failed on 1 of 2 servers: broker-b: not this key (NO_PERMISSION, 16)")
