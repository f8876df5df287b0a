"""Errors of the admin client."""

from kerolox.admin import PartlyDone
from kerolox.errors import NoPermission


def test_partly_done_names_the_failed_servers_and_reasons() -> None:
    error = PartlyDone("UPDATE_BROKER_CONFIG", {"broker-a": None}, {"broker-b": NoPermission("not this key")})

    assert str(error) == ("UPDATE_BROKER_CONFIG failed on 1 of 2 servers: broker-b: not this key (NO_PERMISSION, 16)")
