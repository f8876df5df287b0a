"""Writes messages of every kind to a store, in a separate process that may be killed (`write_in_process`)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from kerolox.message import property_names, sysflag
from kerolox.message.compression import compress
from kerolox.message.hosts import Host, pack
from kerolox.message.ids import UniqueIds, offset_id
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.batch import Part, encode
from kerolox.message.sysflag import CompressionType
from kerolox.runtime.clock import SystemClock
from kerolox.runtime.service import Supervisor
from kerolox.store.config import FlushDiskType
from kerolox.store.delay.delay_levels import HALF_TOPIC, diversion, parse_levels, restore_message
from kerolox.store.log.commit_log import Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.store import Store
from tests.compat.sent_messages import SentMessage, parse
from tests.compat.shared_store import configuration

QUEUES = 4
OP_TOPIC, TIMER_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer"
# The producer group of Kinds.java, so that our pending transactions are checked with Settle.java, too.
TRANSACTION_GROUP = "kinds_transactions"

_TIMEOUT_SECONDS = 120.0


def write_in_process(
    root: Path, topic: str, prefix: str, count: int, port: int, *, has_timers: bool, is_killed: bool = False
) -> list[SentMessage]:
    """Open the store in `root` in another process, write the messages that Kinds.java would send, and close it.

    `port` is the port in the store host of the messages. With `is_killed`, the process is killed instead of closing the
    store: the abort file stays, and queues and index may be incomplete. The lock is released in both cases.
    """
    arguments = (str(root), topic, prefix, str(count), str(port), str(int(has_timers)), str(int(is_killed)))
    finished = subprocess.run(
        [sys.executable, "-m", "tests.compat.store_writer", *arguments],
        cwd=Path(__file__).parent.parent.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    assert finished.returncode == (-signal.SIGKILL if is_killed else 0), finished.stderr
    return parse(finished.stdout.splitlines())


class StoreWriter:
    """Builds records like a broker, appends them, and prints a line for each message."""

    def __init__(self, store: Store, topic: str, prefix: str, host: Host) -> None:
        self._store = store
        self._topic = topic
        self._prefix = prefix
        self._host = host
        self._delay = diversion(parse_levels(store.config.message_delay_level))
        self._ids = UniqueIds(bytes((127, 0, 0, 1)))
        self._number = 0

    async def put_all(self, count: int, *, has_timers: bool) -> None:
        for _ in range(2):
            await self._put_transactions()
            await self._put_delayed()
            if has_timers:
                await self._put_timers()
        await self._put_batch()
        await self._put_compressed()
        await self._put_large()
        await self._put_ipv6()
        for _ in range(count):
            await self._put("plain", self._message(self._text(20)))

    async def _put_transactions(self) -> None:
        committed = await self._put_half("committed")
        rolled_back = await self._put_half("rolled back")
        await self._put_half("pending")
        message, appended = committed
        message.topic, message.queue_id = self._topic, int(message.get(property_names.REAL_QID) or 0)
        message.sys_flag = sysflag.with_transaction_type(message.sys_flag, sysflag.COMMIT)
        message.prepared_transaction_offset = appended.physical_offset
        await self._append(message)
        for _, half in (committed, rolled_back):
            await self._append(self._op_message(half.queue_offset))

    async def _put_half(self, kind: str) -> tuple[Message, Appended]:
        message = self._message(self._text(20))
        unique_key = message.get(property_names.UNIQ_KEY) or ""
        self._add(message, TRAN_MSG="true", PGROUP=TRANSACTION_GROUP, __transactionId__=unique_key)
        self._divert(message, HALF_TOPIC, 0)
        return message, await self._put(kind, message)

    def _op_message(self, half_queue_offset: int) -> Message:
        """Return the op message of a resolved half message, without comma: 4.9 does not parse one, 5.x needs none."""
        message = Message(OP_TOPIC, str(half_queue_offset).encode(), to_bytes({property_names.TAGS: "d"}))
        self._set_born(message)
        return message

    async def _put_delayed(self) -> None:
        for kind, level in (("delayed", 2), ("delayed long", 18)):
            message = self._message(self._text(20))
            self._add(message, DELAY=str(level))
            await self._put(kind, self._delay(message))
        # A delivered message still has the properties of its delay.
        message = self._message(self._text(20))
        self._add(message, DELAY="1")
        await self._put("delivered", restore_message(self._delay(message)))

    async def _put_timers(self) -> None:
        for kind, millis in (("timer", 3000), ("timer long", 3_600_000)):
            deliver = SystemClock().millis() + millis
            message = self._message(self._text(20))
            self._add(message, TIMER_DELIVER_MS=str(deliver), TIMER_OUT_MS=str(deliver // 1000 * 1000))
            self._divert(message, TIMER_TOPIC, 0)
            await self._put(kind, message)

    async def _put_batch(self) -> None:
        messages = [self._message(self._text(20 + part), queue_id=1) for part in range(5)]
        parts = [Part(message.body, message.properties, message.flag) for message in messages]
        draft = MessageEncoder().encode_batch(messages[0], encode(parts))
        appended, status = await self._store.put(draft)
        assert status is AckStatus.OK
        for part, message in enumerate(messages):
            physical_offset = appended.physical_offset + draft.starts[part]
            self._print("batch", message, message.body, physical_offset, appended.queue_offset + part)

    async def _put_compressed(self) -> None:
        for kind in CompressionType:
            for size in (5000, 300_000):
                body = self._text(size)
                message = self._message(compress(body, kind))
                message.sys_flag = sysflag.with_compression(message.sys_flag, kind)
                await self._put("compressed", message, body)

    async def _put_large(self) -> None:
        chance = random.Random(self._prefix)
        for size in range(200_000, 500_000, 40_000):
            await self._put("large", self._message(chance.randbytes(size)))

    async def _put_ipv6(self) -> None:
        for is_stored_there in (False, True):
            message = self._message(self._text(20))
            message.born_host = pack("::1", 40001)
            if is_stored_there:
                message.store_host = pack("2001:db8::1", 10911)
            await self._put("ipv6", message)

    def _text(self, size: int) -> bytes:
        line = f"{self._prefix} größe {self._number}; "
        return (line * (size // len(line) + 1)).encode()

    def _message(self, body: bytes, queue_id: int | None = None) -> Message:
        number, self._number = self._number, self._number + 1
        shared = " shared" if number % 20 == 0 else ""
        properties = {
            property_names.KEYS: f"{self._prefix}-{number}{shared} größe-{self._prefix}{number % 50}",
            property_names.UNIQ_KEY: self._ids.make(),
            property_names.TAGS: "TagA" if number % 3 == 0 else "Größe",
            "number": str(number),
            "größe": "𝄞 ü€ ",
        }
        chosen = number % QUEUES if queue_id is None else queue_id
        message = Message(self._topic, body, to_bytes(properties), chosen, flag=number)
        self._set_born(message)
        return message

    def _set_born(self, message: Message) -> None:
        message.born_timestamp = SystemClock().millis()
        message.born_host = pack("127.0.0.1", 40000)
        message.store_host = self._host

    def _add(self, message: Message, **properties: str) -> None:
        message.properties = to_bytes({**message.parsed, **properties})

    def _divert(self, message: Message, topic: str, queue_id: int) -> None:
        self._add(message, REAL_TOPIC=message.topic, REAL_QID=str(message.queue_id))
        message.topic, message.queue_id = topic, queue_id

    async def _put(self, kind: str, message: Message, body: bytes | None = None) -> Appended:
        appended = await self._append(message)
        plain = message.body if body is None else body
        self._print(kind, message, plain, appended.physical_offset, appended.queue_offset)
        return appended

    async def _append(self, message: Message) -> Appended:
        appended, status = await self._store.put(MessageEncoder().encode(message))
        assert status is AckStatus.OK
        return appended

    def _print(self, kind: str, message: Message, body: bytes, physical_offset: int, queue_offset: int) -> None:
        stored_id = offset_id(message.store_host, physical_offset)
        unique_key = message.get(property_names.UNIQ_KEY) or ""
        digest = hashlib.sha256(body).hexdigest()
        print(SentMessage(kind, unique_key, stored_id, queue_offset, digest, tuple(message.keys)).line())


async def _main(root: str, topic: str, prefix: str, count: str, port: str, has_timers: str, is_killed: str) -> None:
    must_kill = bool(int(is_killed))
    flush = FlushDiskType.SYNC_FLUSH if must_kill else FlushDiskType.ASYNC_FLUSH
    store = Store(configuration(Path(root), flush))
    async with Supervisor(store):
        writer = StoreWriter(store, topic, prefix, pack("127.0.0.1", int(port)))
        await writer.put_all(int(count), has_timers=bool(int(has_timers)))
        sys.stdout.flush()
        if must_kill:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
