"""Signs requests for RocketMQ's access control, 4.x and 5.x (AclClientRPCHook)."""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105
SIGNATURE: Final = "Signature"
# 4.x brokers never include this field in the signature; 5.x brokers include it only for clients newer than 4.9.3.
UNSIGNED: Final = "_UNIQUE_KEY_QUERY"

_NOT_COVERED = frozenset({SIGNATURE, UNSIGNED})


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access key and secret key of a client. `repr()` omits the secrets."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signed(credentials: Credentials, fields: Mapping[str, str] | None, body: bytes) -> dict[str, str]:
    """Return the fields with the access key, the security token and a signature over all of them and the body.

    The caller must send exactly these strings: the broker verifies the signature over the text of each value. If
    `UNSIGNED` is among the fields, the request must carry the version of a 4.9.3 client, because newer versions make
    5.x brokers verify that field too.
    """
    complete = dict(fields or ())
    complete[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        complete[SECURITY_TOKEN] = credentials.security_token
    complete[SIGNATURE] = signature(credentials.secret_key, complete, body)
    return complete


def signature(secret_key: str, fields: Mapping[str, str], body: bytes) -> str:
    """Return the value of the field Signature: HMAC-SHA1 over the values, sorted by field name, and the body."""
    content = "".join([fields[name] for name in sorted(fields) if name not in _NOT_COVERED]).encode() + body
    return base64.b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()
