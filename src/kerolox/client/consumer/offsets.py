"""How far a group has come in each queue: kept by the brokers, or in a file beside each member that reads all."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from kerolox.client.consumer.brokers import Brokers
from kerolox.errors import ConnectFailed, KeroloxError, ProtocolError, QueryNotFound
from kerolox.runtime import fastjson
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.files import BACKUP_SUFFIX, Disk, RealDisk, replace_whole
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from kerolox.wire.integers import Int64

log = logging.getLogger(__name__)

LOCAL_DIRECTORY = Path("~/.rocketmq_offsets")
FILE_NAME = "offsets.json"


class Offsets(ABC):
    """The next offset of each queue as this member knows it. What is here is not yet safe: `persist` makes it so."""

    def __init__(self) -> None:
        self._table: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """Returns what this member knows of a queue that it reads."""
        return self._table.get(queue)

    def advance(self, queue: MessageQueue, offset: int) -> None:
        """Moves on; what was consumed later and committed first is not taken back."""
        if offset > self._table.get(queue, -1):
            self._table[queue] = offset

    def set(self, queue: MessageQueue, offset: int) -> None:
        """Moves to an offset, in whichever direction it lies."""
        self._table[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        self._table.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self._table.items() if queue.topic == topic}

    @abstractmethod
    async def stored(self, queue: MessageQueue) -> int | None:
        """Returns where to go on; None if nobody of the group was ever here. KeroloxError if that cannot be known."""

    @abstractmethod
    async def persist(self, queues: Collection[MessageQueue], *, is_last: bool = False) -> None:
        """Makes what is known of these queues safe, as far as it can; with `is_last`, waits to hear that it is."""


class BrokerOffsets(Offsets):
    """The offsets of a group that shares its queues: each at the master of its broker."""

    def __init__(self, brokers: Brokers, group: str) -> None:
        super().__init__()
        self._brokers = brokers
        self._group = group
        # What the broker was told last: saying it again would only cost.
        self._told: dict[MessageQueue, int] = {}

    def forget(self, queue: MessageQueue) -> None:
        super().forget(queue)
        self._told.pop(queue, None)

    async def stored(self, queue: MessageQueue) -> int | None:
        address = self._brokers.routes.address(queue.broker_name)
        if address is None:
            raise ConnectFailed(f"no address of broker {queue.broker_name} is known")
        request = QueryConsumerOffset(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return (await self._brokers.call(address, request)).fields.offset
        except QueryNotFound:
            return None

    async def persist(self, queues: Collection[MessageQueue], *, is_last: bool = False) -> None:
        for queue in queues:
            offset = self._table.get(queue)
            if offset is None or (self._told.get(queue) == offset and not is_last):
                continue
            address = self._brokers.routes.address(queue.broker_name)
            if address is None:
                log.warning("offset %d of %s cannot be stored: where the broker is, nobody says", offset, queue)
                continue
            request = UpdateConsumerOffset(
                consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
            )
            try:
                if is_last:
                    await self._brokers.call(address, request)
                else:
                    await self._brokers.oneway(address, request)
                self._told[queue] = offset
            except KeroloxError as error:
                log.warning("offset %d of %s was not stored: %s", offset, queue, error)


class _OffsetTable(Body):
    offset_table: dict[MessageQueue, Int64] = msgspec.field(default_factory=dict)


class LocalOffsets(Offsets):
    """The offsets of a member that reads every queue itself, in the file that Java's client would have of it."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        super().__init__()
        self._path = path
        self._disk = disk or RealDisk()

    async def load(self) -> None:
        """Reads what was written before; ProtocolError if neither the file nor the one before it can be read."""
        self._table = await in_thread(self._read)

    async def stored(self, queue: MessageQueue) -> int | None:
        return (await in_thread(self._read)).get(queue)

    async def persist(self, queues: Collection[MessageQueue], *, is_last: bool = False) -> None:
        known = {queue: self._table[queue] for queue in queues if queue in self._table}
        if not known:
            return
        try:
            await in_thread(self._write, known)
        except (OSError, ProtocolError) as error:
            log.warning("offsets were not written to %s: %s", self._path, error)

    def _read(self) -> dict[MessageQueue, int]:
        content = self._disk.read(self._path)
        if content:
            try:
                return _OffsetTable.decode(content).offset_table
            except ProtocolError as error:
                log.warning("%s cannot be read, so the one before it is: %s", self._path, error)
        content = self._disk.read(self._path.with_name(self._path.name + BACKUP_SUFFIX))
        return _OffsetTable.decode(content).offset_table if content else {}

    def _write(self, known: Mapping[MessageQueue, int]) -> None:
        merged = {**self._read(), **known}
        self._disk.make_directory(self._path.parent)
        replace_whole(self._disk, self._path, as_java_writes(merged))


def local_path(directory: Path, client_id: str, group: str) -> Path:
    return directory.expanduser() / client_id / group / FILE_NAME


def as_java_writes(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Returns the content of offsets.json: JSON with objects as keys, laid out as fastjson does."""
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
