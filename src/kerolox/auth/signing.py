"""Signatures of requests, as RocketMQ's access control (4.x, and 5.x with its client) wants them."""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105
SIGNATURE: Final = "Signature"
# Brokers of 4.x leave this field out of what they verify, and those of 5.x do so for clients up to 4.9.3.
UNSIGNED: Final = "_UNIQUE_KEY_QUERY"

_LEFT_OUT = frozenset({SIGNATURE, UNSIGNED})


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who signs. The secret is not shown where the credentials are printed."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signed(credentials: Credentials, fields: Mapping[str, str] | None, body: bytes) -> dict[str, str]:
    """Returns the fields of a request together with who sends it, and the signature over all of them and the body.

    They must be sent exactly so: a number that is written differently does not pass. With `UNSIGNED` among them, the
    request must say that it comes from a client of 4.9.3, or else not every broker takes it.
    """
    complete = dict(fields or ())
    complete[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        complete[SECURITY_TOKEN] = credentials.security_token
    complete[SIGNATURE] = signature(credentials.secret_key, complete, body)
    return complete


def signature(secret_key: str, fields: Mapping[str, str], body: bytes) -> str:
    """Returns what the field Signature must be: over the values in the order of their names, and then the body."""
    content = "".join([fields[name] for name in sorted(fields) if name not in _LEFT_OUT]).encode() + body
    return base64.b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()
