"""Offset stores: consumed offsets on the session, or in a local file for broadcasting consumers (OffsetStore)."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from kerolox.client.consumer.session_interface import SessionInterface
from kerolox.errors import ConnectFailed, KeroloxError, ProtocolError, QueryNotFound
from kerolox.runtime.files import BACKUP_SUFFIX, Disk, RealDisk, replace_whole
from kerolox.runtime.text import fastjson
from kerolox.runtime.threads import in_thread
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from kerolox.wire.integers import Int64

log = logging.getLogger(__name__)

LOCAL_DIRECTORY = Path("~/.rocketmq_offsets")
FILE_NAME = "offsets.json"


class OffsetStore(ABC):
    """The next offset to consume of each queue, in memory until `persist`."""

    def __init__(self) -> None:
        self._table: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset in memory."""
        return self._table.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset unless it is lower than the current one: batches may finish out of order."""
        if offset > self._table.get(queue, -1):
            self._table[queue] = offset

    def set(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset, also to a lower one."""
        self._table[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        self._table.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self._table.items() if queue.topic == topic}

    @abstractmethod
    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the committed offset; None if there is none. Raises KeroloxError if it cannot be queried."""

    @abstractmethod
    async def persist(self, queues: Collection[MessageQueue], *, wait_for_response: bool = False) -> None:
        """Commit the offsets of these queues. Failures are logged: the next call tries again."""


class BrokerOffsetStore(OffsetStore):
    """The offsets of a clustering group, kept by the master of each queue (RemoteBrokerOffsetStore).

    While a group has no master, a slave keeps them.
    """

    def __init__(self, session: SessionInterface, group: str) -> None:
        super().__init__()
        self._session = session
        self._group = group
        # The offsets sent last; unchanged ones are not sent again.
        self._sent: dict[MessageQueue, int] = {}

    def forget(self, queue: MessageQueue) -> None:
        super().forget(queue)
        self._sent.pop(queue, None)

    async def committed(self, queue: MessageQueue) -> int | None:
        found = self._session.routes.readable_address(queue.broker_name)
        if found is None:
            raise ConnectFailed(f"the address of broker {queue.broker_name} is unknown")
        _, address = found
        request = QueryConsumerOffset(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return (await self._session.call(address, request)).fields.offset
        except QueryNotFound:
            return None

    async def persist(self, queues: Collection[MessageQueue], *, wait_for_response: bool = False) -> None:
        for queue in queues:
            offset = self._table.get(queue)
            if offset is None or (self._sent.get(queue) == offset and not wait_for_response):
                continue
            found = self._session.routes.readable_address(queue.broker_name)
            if found is None:
                log.warning("offset %d of %s was not committed: the address of its broker is unknown", offset, queue)
                continue
            _, address = found
            request = UpdateConsumerOffset(
                consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
            )
            try:
                if wait_for_response:
                    await self._session.call(address, request)
                else:
                    await self._session.oneway(address, request)
                self._sent[queue] = offset
            except KeroloxError as error:
                log.warning("offset %d of %s was not committed: %s", offset, queue, error)


class _OffsetTable(Body):
    offset_table: dict[MessageQueue, Int64] = msgspec.field(default_factory=dict)


class LocalOffsetStore(OffsetStore):
    """The offsets of a broadcasting consumer, in a file like that of Java's client (LocalFileOffsetStore)."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        super().__init__()
        self._path = path
        self._disk = disk or RealDisk()

    async def load(self) -> None:
        """Read the file; raise ProtocolError if neither it nor its backup can be decoded."""
        self._table = await in_thread(self._read)

    async def committed(self, queue: MessageQueue) -> int | None:
        return (await in_thread(self._read)).get(queue)

    async def persist(self, queues: Collection[MessageQueue], *, wait_for_response: bool = False) -> None:
        offsets = {queue: self._table[queue] for queue in queues if queue in self._table}
        if not offsets:
            return
        try:
            await in_thread(self._write, offsets)
        except (OSError, ProtocolError) as error:
            log.warning("offsets were not written to %s: %s", self._path, error)

    def _read(self) -> dict[MessageQueue, int]:
        content = self._disk.read(self._path)
        if content:
            try:
                return _OffsetTable.decode(content).offset_table
            except ProtocolError as error:
                log.warning("%s is damaged, reading its backup instead: %s", self._path, error)
        content = self._disk.read(self._path.with_name(self._path.name + BACKUP_SUFFIX))
        return _OffsetTable.decode(content).offset_table if content else {}

    def _write(self, offsets: Mapping[MessageQueue, int]) -> None:
        merged = {**self._read(), **offsets}
        self._disk.make_directory(self._path.parent)
        replace_whole(self._disk, self._path, encode_java_json(merged))


def local_path(directory: Path, client_id: str, group: str) -> Path:
    return directory.expanduser() / client_id / group / FILE_NAME


def encode_java_json(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the content of offsets.json: JSON with objects as keys, formatted like fastjson."""
    entries = ",".join(
        [
            f'{{\n\t\t\t"brokerName":{_text(queue.broker_name)},'
            f'\n\t\t\t"queueId":{queue.queue_id},'
            f'\n\t\t\t"topic":{_text(queue.topic)}\n\t\t}}:{offset}'
            for queue, offset in offsets.items()
        ]
    )
    end = "\n\t}" if offsets else "}"
    return f'{{\n\t"offsetTable":{{{entries}{end}\n}}'.encode()


def _text(text: str) -> str:
    return fastjson.encode(text).decode()
