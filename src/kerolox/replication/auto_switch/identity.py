"""Who a broker is within its group: broker id and store id (BrokerMetadata, TempBrokerMetadata).

    brokerIdentity         cluster#broker name#broker id
    brokerIdentity-temp    cluster#broker name#broker id#register check code; only while the id is applied for

The controller knows a replica by its broker id alone. A broker whose disk was emptied, but whose identity survived on
another disk or was restored from a backup, would count as a copy of messages that it has lost, and could be elected.
Each store therefore has a random id in a file of its own, and `brokerIdentity-store`, beside the identity, names the
store that it was given for. An identity of another store is not used; the broker applies for a new id. An identity
without the companion, as RocketMQ leaves it, is taken over if the log has records.
"""

import logging
import secrets
from pathlib import Path
from typing import NamedTuple

from kerolox.runtime.files import Disk, write_whole
from kerolox.store.errors import StoreDamaged

log = logging.getLogger(__name__)

IDENTITY_NAME = "brokerIdentity"
_TEMPORARY_SUFFIX, _STORE_SUFFIX = "-temp", "-store"
STORE_ID_NAME = "storeId"


class Identity(NamedTuple):
    cluster: str
    broker_name: str
    broker_id: int


class Application(NamedTuple):
    """An identity that the controller has not granted yet."""

    identity: Identity
    # "address;milliseconds": the controller grants an id again to the same code, after an answer that was lost.
    check_code: str


def store_id(disk: Disk, root: Path, *, is_emptied: bool) -> str:
    """Return the id of a store; a new one, durably, if it has none or its log was emptied. Blocks.

    A log is emptied if it holds nothing, although the checkpoint has the time of a record. It is then a new store even
    if the file has survived: it holds nothing that the old one had.
    """
    path = root / STORE_ID_NAME
    content = disk.read(path)
    if content and not is_emptied:
        return content.decode("ascii", "replace").strip()
    created = secrets.token_hex(16)
    write_whole(disk, path, created.encode() + b"\n")
    return created


class IdentityFiles:
    """The files of a broker's identity (storePathBrokerIdentity)."""

    def __init__(self, disk: Disk, path: Path, store: str) -> None:
        self._disk = disk
        self._path = path
        self._temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        self._companion = path.with_name(path.name + _STORE_SUFFIX)
        self._store = store

    def load(self, *, is_log_empty: bool) -> Identity | None:
        """Return the identity of this store; None if it has none. StoreDamaged if the file is unreadable."""
        content = self._disk.read(self._path)
        if content is None:
            return None
        identity, _ = _decode(content, self._path, with_code=False)
        companion = self._disk.read(self._companion)
        known = None if companion is None else companion.decode("ascii", "replace").strip()
        if known == self._store or (known is None and not is_log_empty):
            return identity
        log.error(
            "%s is of another store, so this broker applies for a new id; broker id %d is gone: "
            "remove it with `mqadmin cleanBrokerMetadata`",
            self._path,
            identity.broker_id,
        )
        return None

    def load_application(self) -> Application | None:
        """Return the application that was not finished; None if there is none or it is unreadable."""
        content = self._disk.read(self._temporary)
        try:
            return None if content is None else Application(*_decode(content, self._temporary, with_code=True))
        except StoreDamaged as error:
            log.warning("%s; applying for a new broker id", error)
            return None

    def apply(self, application: Application) -> None:
        """Make an application durable, before it is sent. Blocks."""
        write_whole(self._disk, self._temporary, _encode(*application.identity, application.check_code))

    def grant(self, identity: Identity) -> None:
        """Make a granted identity durable, and remove the application. Blocks.

        The companion is written first: alone it means nothing, and an identity is never without it.
        """
        write_whole(self._disk, self._companion, self._store.encode() + b"\n")
        write_whole(self._disk, self._path, _encode(*identity))
        self.withdraw()

    def withdraw(self) -> None:
        """Remove an application, which the controller has refused or which is granted. Blocks."""
        if self._disk.read(self._temporary) is not None:
            self._disk.remove(self._temporary)
            self._disk.sync(self._temporary.parent)


def _encode(*fields: object) -> bytes:
    return "#".join(map(str, fields)).encode()


def _decode(content: bytes, path: Path, *, with_code: bool) -> tuple[Identity, str]:
    fields = content.decode("utf-8", "replace").strip().split("#")
    if len(fields) != 3 + with_code or not fields[2].isascii() or not fields[2].isdigit():
        raise StoreDamaged(f"{path} holds {content[:80]!r} instead of cluster, broker name and broker id")
    return Identity(fields[0], fields[1], int(fields[2])), fields[3] if with_code else ""
