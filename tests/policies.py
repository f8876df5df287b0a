"""A policy that a test switches between admitting and refusing, and the frames of one request in every form."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kerolox.errors import NoPermission
from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Incoming
from kerolox.wire.command import BINARY, JSON, encode
from kerolox.wire.header import Request
from tests.hostile import frame, usual_fields

REFUSAL = "refused by the policy of the test"


class SwitchedPolicy:
    """Counts its decisions by request code."""

    def __init__(self, *, is_refusing: bool = False) -> None:
        self.is_refusing = is_refusing
        self.decoded: Counter[int] = Counter()
        self.admitted_equal: Counter[int] = Counter()

    def admit(self, request: Incoming[Any]) -> None:
        self.decoded[request.code] += 1
        if self.is_refusing:
            raise NoPermission(REFUSAL)

    def admit_equal(self, request: Incoming[Any], connection: Connection, count: int) -> bool:
        if not self.is_refusing:
            self.admitted_equal[request.code] += count
        return not self.is_refusing


def frames_of(request: type[Request[Any]], known: Mapping[str, Any], first_opaque: int) -> Iterator[bytes]:
    """Yield frames with usual fields in each form of a header; opaques count up from `first_opaque`."""
    fields = {name: str(value) for name, value in usual_fields(request, known).items()}
    code = int(request.code)
    yield encode(JSON, code=code, opaque=first_opaque, ext=fields)
    # The code is not the first member, so the general decoder handles this header.
    header = {"opaque": first_opaque + 1, "flag": 0, "language": "GO", "extFields": fields, "code": code}
    yield frame(json.dumps(header).encode())
    # The second one matches the template learnt from the first.
    yield encode(BINARY, code=code, opaque=first_opaque + 2, ext=fields)
    yield encode(BINARY, code=code, opaque=first_opaque + 3, ext=fields)
    yield encode(JSON, code=code, opaque=first_opaque + 4, ext=fields, body=b"[]")


FORMS = 5
