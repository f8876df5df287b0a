"""The storage of several controllers: etcd, through its HTTP/JSON gateway.

A broker group is one key, changed only in transactions that compare its mod_revision with the one that the decision was
made from. Leadership is a key with a lease: whoever creates it leads until the lease expires. Safety does not depend on
it: a controller that wrongly takes itself for the leader fails the comparison.
"""

import base64
import logging
import ssl
from collections.abc import Sequence
from typing import Any

import msgspec

from kerolox.controller.storage.http import HttpConnectFailed, HttpConnection, HttpError
from kerolox.controller.storage.storage import ABSENT, Leadership, StorageUnavailable, Stored, VersionConflict
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

_GROUPS = "groups/"
_LEADER = "leader"


class Etcd:
    """Keys below `prefix`. `endpoints` are tried in turn, beginning with the last one that answered."""

    def __init__(
        self,
        endpoints: Sequence[str],
        prefix: str,
        clock: Clock,
        *,
        lease_seconds: int = 5,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._connections = [HttpConnection(endpoint, tls=tls) for endpoint in endpoints]
        self._prefix = prefix.rstrip("/") + "/"
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._lease_id: str | None = None

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()

    # Values

    async def load(self) -> dict[str, Stored]:
        start = self._prefix + _GROUPS
        answer = await self._post("/v3/kv/range", {"key": _text(start), "range_end": _text(start[:-1] + "0")})
        return {
            _bytes(item["key"]).decode()[len(start) :]: Stored(_bytes(item["value"]), int(item["mod_revision"]))
            for item in answer.get("kvs", [])
        }

    async def read(self, name: str) -> Stored | None:
        found = await self._read(self._prefix + _GROUPS + name)
        return None if found is None else Stored(_bytes(found["value"]), int(found["mod_revision"]))

    async def _read(self, key: str) -> dict[str, Any] | None:
        items: list[dict[str, Any]] = (await self._post("/v3/kv/range", {"key": _text(key)})).get("kvs", [])
        return items[0] if items else None

    async def replace(self, name: str, value: bytes, version: int) -> int:
        key = self._prefix + _GROUPS + name
        transaction = {
            "compare": [{"key": _text(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}],
            "success": [{"request_put": {"key": _text(key), "value": _text(value)}}],
        }
        try:
            answer = await self._post("/v3/kv/txn", transaction, is_repeatable=False)
        except StorageUnavailable:
            # The answer was lost. If the key holds our value, and did not before, the change was made.
            stored = await self.read(name)
            if stored is not None and stored.version > version and stored.value == value:
                return stored.version
            if (ABSENT if stored is None else stored.version) == version:
                # The request may still be on its way.
                raise
            raise VersionConflict(f"the value of {name!r} has changed since revision {version}") from None
        if not answer.get("succeeded"):
            raise VersionConflict(f"the value of {name!r} has changed since revision {version}")
        return int(answer["header"]["revision"])

    # Leadership

    async def campaign(self, leader_id: str, address: str) -> Leadership:
        # The lease lives at least this long: etcd counts from when it gets the request.
        until = self._clock.monotonic() + self._lease_seconds
        if self._lease_id is not None and not await self._keep_alive(self._lease_id):
            self._lease_id = None
        if self._lease_id is None:
            granted = await self._post("/v3/lease/grant", {"TTL": str(self._lease_seconds), "ID": "0"})
            self._lease_id = str(granted["ID"])
        key, value = self._prefix + _LEADER, f"{leader_id};{address}"
        transaction = {
            "compare": [{"key": _text(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
            "success": [{"request_put": {"key": _text(key), "value": _text(value), "lease": self._lease_id}}],
            "failure": [{"request_range": {"key": _text(key)}}],
        }
        answer = await self._post("/v3/kv/txn", transaction)
        if answer.get("succeeded"):
            return Leadership(True, leader_id, address, until)
        items = answer["responses"][0]["response_range"].get("kvs", [])
        if not items:
            return Leadership(False)
        if str(items[0].get("lease")) == self._lease_id:
            return Leadership(True, leader_id, address, until)
        found_id, _, found_address = _bytes(items[0]["value"]).decode(errors="replace").partition(";")
        return Leadership(False, found_id, found_address)

    async def _keep_alive(self, lease_id: str) -> bool:
        answer = await self._post("/v3/lease/keepalive", {"ID": lease_id})
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    async def resign(self) -> None:
        lease_id, self._lease_id = self._lease_id, None
        if lease_id is not None:
            await self._post("/v3/lease/revoke", {"ID": lease_id})

    # The gateway

    async def _post(self, path: str, request: dict[str, Any], *, is_repeatable: bool = True) -> dict[str, Any]:
        """Return the answer of the first endpoint that gives one; StorageUnavailable if none does.

        A request that must not be executed twice is sent once.
        """
        body = msgspec.json.encode(request)
        failures: list[str] = []
        # A copy, because concurrent calls change the order.
        for connection in tuple(self._connections):
            try:
                response = await connection.post(path, body)
                if response.status == 200:
                    return msgspec.json.decode(response.body, type=dict[str, Any])
                failures.append(f"{connection.url}{path}: {response.status} {response.body[:200]!r}")
                is_sent = True
            except (HttpError, msgspec.MsgspecError) as error:
                failures.append(str(error))
                is_sent = not isinstance(error, HttpConnectFailed)
            # Try it last from now on.
            self._connections.remove(connection)
            self._connections.append(connection)
            if is_sent and not is_repeatable:
                break
        raise StorageUnavailable(f"etcd did not answer: {'; '.join(failures)}")


def _text(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
