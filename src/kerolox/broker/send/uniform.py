"""Collects sends whose headers are equal but for four values, and stores those of one loop iteration as columns.

A busy producer repeats its header, but for four values (`wire/header_columns.py`). Once such a request has been
answered, frames with the same header are collected; at the end of the loop iteration they are compared, encoded,
stored and answered together. A frame that turns out to differ is handled like any other request.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from msgspec.structs import replace

from kerolox.broker.send.collector import FEW, Run, SendCollector
from kerolox.broker.send.put import MessagePut, born_host
from kerolox.message.hosts import Host
from kerolox.message.message import Message
from kerolox.message.plain_properties import FoundProperties
from kerolox.message.records.uniform import VaryingColumns
from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Incoming
from kerolox.runtime.event_loop import at_end_of_turn
from kerolox.store.log.commit_log import Append, Appended
from kerolox.wire.command import ONEWAY_BIT
from kerolox.wire.frames import Frame
from kerolox.wire.header_columns import HEADER_SIZE_MAX, Columns, HeaderColumns, alike
from kerolox.wire.header_templates import FIXED_SIZE

log = logging.getLogger(__name__)

# This many bytes of the beginning of a header tell producers and topics apart.
_KEY_SIZE_MIN, _KEY_SIZE_MAX = 16, 64
_KEY_SIZES_MAX = 8
_KNOWN_MAX = 512
# The largest body of a frame to learn from; the frame stays referenced until the next send.
_BODY_SIZE_MAX = 64 * 1024
# This many requests pass before another template is learnt. The number doubles with each template, up to the maximum,
# until one is used: traffic without equal headers must not pay for learning from each message.
_WAIT_COUNT_MIN, _WAIT_COUNT_MAX = 16, 4096


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A template, and the decoded request that it was learnt from."""

    alike: HeaderColumns
    request: Incoming[Any]
    tag: bytes


class _Gathered:
    """The frames of one template in this loop iteration, and how many came from each connection."""

    __slots__ = ("bodies", "headers", "owners")

    def __init__(self) -> None:
        self.headers: list[bytes] = []
        self.bodies: list[bytes] = []
        self.owners: list[tuple[Connection, int]] = []

    def split(self, admitted: Sequence[bool]) -> "tuple[_Gathered, _Gathered]":
        """Return the admitted frames and the others; `admitted` has an entry for each of `owners`."""
        kept, others = _Gathered(), _Gathered()
        start = 0
        for (connection, count), is_admitted in zip(self.owners, admitted, strict=True):
            part = kept if is_admitted else others
            part.headers += self.headers[start : start + count]
            part.bodies += self.bodies[start : start + count]
            part.owners.append((connection, count))
            start += count
        return kept, others


class UniformSends:
    def __init__(self, collector: SendCollector, message_put: MessagePut) -> None:
        self._collector = collector
        self._message_put = message_put
        collector.learn = self._learn
        # Templates by header size and beginning.
        self._known: dict[tuple[int, bytes], _Known] = {}
        self._key_sizes: tuple[int, ...] = ()
        self._gathered: dict[_Known, _Gathered] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        # The number of requests before the next template may be learnt, and that after it.
        self._wait_count, self._next_wait_count = 0, _WAIT_COUNT_MIN

    def collect(self, frames: Sequence[Frame], connection: Connection) -> Sequence[Frame]:
        """Collect the frames of one read if a template may match them; return them otherwise."""
        count = len(frames)
        if count < FEW and not self._collector.is_busy:
            return frames
        serializations, headers, bodies = zip(*frames, strict=True)
        header = headers[0]
        size = len(header)
        known = None
        for key_size in self._key_sizes:
            known = self._known.get((size, header[FIXED_SIZE : FIXED_SIZE + key_size]))
            if known is not None:
                break
        if known is None:
            self._wait_count -= count
            if self._wait_count <= 0 and size <= HEADER_SIZE_MAX and len(bodies[0]) <= _BODY_SIZE_MAX:
                self._collector.candidate = frames[0]
                self._wait_count = self._next_wait_count
                self._next_wait_count = min(2 * self._next_wait_count, _WAIT_COUNT_MAX)
            return frames
        is_alike = serializations.count(known.alike.serialization) == count
        if not is_alike or (count > 1 and list(map(len, headers)).count(size) < count):
            return frames
        if not self._gathered:
            self._loop = self._loop or asyncio.get_running_loop()
            at_end_of_turn(self._loop, self._end)
        gathered = self._gathered.get(known)
        if gathered is None:
            gathered = self._gathered[known] = _Gathered()
        gathered.headers += headers
        gathered.bodies += bodies
        gathered.owners.append((connection, count))
        return ()

    def _learn(self, frame: Frame, request: Incoming[Any], found: FoundProperties) -> None:
        """Learn a template from a request that was taken."""
        serialization, header, body = frame
        unique_key, keys, tag = found
        # The sample is recognized by the identity of its body. CPython interns bytes of length one, so not those.
        if request.body is not body or len(body) == 1 or keys:
            return
        learnt = alike(serialization, header, request.opaque, request.header, unique_key)
        if learnt is not None and len(learnt.beginning) >= _KEY_SIZE_MIN:
            key = learnt.beginning[:_KEY_SIZE_MAX]
            is_new_size = len(key) not in self._key_sizes
            if len(self._known) >= _KNOWN_MAX or (is_new_size and len(self._key_sizes) >= _KEY_SIZES_MAX):
                self._known, self._key_sizes = {}, ()
            if len(key) not in self._key_sizes:
                self._key_sizes += (len(key),)
            self._known[len(header), key] = _Known(learnt, replace(request, body=b"", origin=None), tag)

    def _forget(self, known: _Known) -> None:
        """Drop a template that did not match, and pause learning."""
        self._known = {key: value for key, value in self._known.items() if value is not known}
        self._wait_count = _WAIT_COUNT_MAX

    def _end(self) -> None:
        all_gathered, self._gathered = self._gathered, {}
        count = sum(len(gathered.headers) for gathered in all_gathered.values())
        self._collector.is_busy = count >= FEW
        for known, gathered in all_gathered.items():
            run = None
            try:
                if len(gathered.headers) >= FEW:
                    run = self._run(known, gathered)
            except Exception:
                # These and all other requests must be answered, whatever failed.
                log.exception("handling %d collected sends one by one", len(gathered.headers))
                self._forget(known)
            if run is not None:
                self._next_wait_count = _WAIT_COUNT_MIN
                run.submit(self._message_put)
            else:
                self._hand_back(known.alike.serialization, gathered)

    def _hand_back(self, serialization: int, gathered: _Gathered) -> None:
        """Hand requests back to their connections, which handle them one by one."""
        frames = [(serialization, *frame) for frame in zip(gathered.headers, gathered.bodies, strict=True)]
        start = 0
        for connection, count in gathered.owners:
            try:
                connection.answer(frames[start : start + count])
            except Exception:
                # A failing connection must not keep the others from being answered.
                log.exception("closed the connection to %s", connection.remote)
                connection.abort()
            start += count

    def _run(self, known: _Known, gathered: _Gathered) -> "_UniformRun | None":
        """Return the run that stores the messages; None if they must be handled one by one."""
        like, collector = known.alike, self._collector
        columns = like.columns(gathered.headers)
        if columns is None:
            self._forget(known)
            return None
        sizes = list(map(len, gathered.bodies))
        usual = collector.usual(known.request.header.topic)
        properties_size = len(like.before) + like.unique_key_size + len(like.after)
        hosts = [host for connection, count in gathered.owners for host in (born_host(connection.remote),) * count]
        is_usual = (
            usual is not None
            and max(columns.queue_ids) < usual.queue_count
            and collector.fits(min(sizes), max(sizes), properties_size, len(sizes))
            and len(set(map(len, hosts))) == 1
        )
        if usual is None or not is_usual:
            return None
        if not self._keep_admitted(known, gathered):
            columns = like.columns(gathered.headers) if gathered.headers else None
            if columns is None:
                return None
            hosts = [host for connection, count in gathered.owners for host in (born_host(connection.remote),) * count]
        return _UniformRun(collector, usual.topic, known, columns, gathered, hosts)

    def _keep_admitted(self, known: _Known, gathered: _Gathered) -> bool:
        """Whether the policies admit all; otherwise the requests of the other connections are handled one by one.

        The last check before the messages are stored, so that each request is admitted once.
        """
        admitted = [connection.admits(known.request, count) for connection, count in gathered.owners]
        if all(admitted):
            return True
        kept, others = gathered.split(admitted)
        self._hand_back(known.alike.serialization, others)
        gathered.headers, gathered.bodies, gathered.owners = kept.headers, kept.bodies, kept.owners
        return False


class _UniformRun(Run):
    """Collected messages, as columns."""

    __slots__ = ("_bodies", "_columns", "_hosts", "_known", "_owners", "_topic")

    def __init__(
        self,
        sends: SendCollector,
        topic: str,
        known: _Known,
        columns: Columns,
        gathered: _Gathered,
        hosts: list[Host],
    ) -> None:
        super().__init__(sends)
        self._topic = topic
        self._known = known
        self._columns = columns
        self._bodies = gathered.bodies
        self._owners = gathered.owners
        self._hosts = hosts
        sends.request_queue.under_way += len(hosts)

    def make(self, message_put: MessagePut, size_max: int) -> list[Append]:
        like, tag = self._known.alike, self._known.tag
        header, columns, bodies = like.sending, self._columns, self._bodies
        after = self._sends.closed(like.after)
        keys = columns.unique_keys
        if len(set(map(len, bodies))) > 1:
            times, sys_flag, flag = header.reconsume_times or 0, header.sys_flag, header.flag
            rows = zip(
                *(zip(repeat(self._topic), columns.queue_ids), repeat(flag), repeat(sys_flag)),
                *(columns.born_timestamps, self._hosts),
                *(repeat(times), bodies, [like.before + key + after for key in keys]),
                strict=False,
            )
            found = [(key, b"", tag) for key in keys]
            return message_put.encoder.encode_plain(message_put.store_host, list(rows), found, size_max)
        first = Message(
            self._topic,
            bodies[0],
            like.before + keys[0] + after,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_host=self._hosts[0],
            store_host=message_put.store_host,
            reconsume_times=header.reconsume_times or 0,
        )
        varying = VaryingColumns(columns.queue_ids, columns.born_timestamps, self._hosts, bodies, keys)
        return message_put.encoder.encode_uniform(first, len(after), varying, tag, size_max)

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None:
        if not is_durable or len(appended) < len(self._drafts):
            self._make_requests()
            super().stored(first, appended, is_durable)
            return
        sends, columns = self._sends, self._columns
        sends.request_queue.under_way -= len(self._hosts)
        size = appended[-1].end_offset - appended[0].physical_offset
        sends.statistics.put_all(self._topic, len(self._hosts), size, perf_counter_ns() - self.began)
        if self._known.request.flag & ONEWAY_BIT:
            return
        physical_offsets: list[int] = []
        queue_offsets: list[int] = []
        for draft, at in zip(self._drafts, appended, strict=True):
            physical_offsets += map(at.physical_offset.__add__, draft.starts)
            queue_offsets += draft.queue_offsets or (at.queue_offset,)
        places = zip(columns.queue_ids, physical_offsets, queue_offsets, strict=True)
        frames = sends.answers.write_all(self._known.alike.serialization, columns.opaques, columns.unique_keys, places)
        start = 0
        for connection, count in self._owners:
            connection.send_all(frames[start : start + count], is_flushed=True)
            start += count

    def refused(self, first: int, count: int, error: Exception) -> None:
        self._make_requests()
        super().refused(first, count, error)

    def _refuse_all(self, error: Exception) -> None:
        self._make_requests()
        super()._refuse_all(error)

    def _make_requests(self) -> None:
        """Create a request object per message, for error responses."""
        if not self.requests:
            origins = [connection for connection, count in self._owners for _ in range(count)]
            self.requests = [
                replace(self._known.request, opaque=opaque, origin=origin)
                for opaque, origin in zip(self._columns.opaques, origins, strict=True)
            ]
            self.found = [(key, b"", self._known.tag) for key in self._columns.unique_keys]
