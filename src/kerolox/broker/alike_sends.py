"""Sends that are alike, as those of one producer are: what one turn of the loop brings of them is taken as columns.

Who sends much at a time sends the same header again and again, but for four values (`wire/alike.py`). Once one such
request has been answered, frames that look like it are put aside as they come; at the turn's end they are compared,
made into records, stored and answered together. What turns out to differ goes the way of all requests.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from msgspec.structs import replace

from kerolox.broker.plain_sends import FEW, PlainSends, Run
from kerolox.broker.storing import Storing, born_host
from kerolox.message.alike import Varying
from kerolox.message.hosts import Host
from kerolox.message.message import Message
from kerolox.message.plain import Found, Traits
from kerolox.remoting.connection import Connection
from kerolox.remoting.routes import Incoming
from kerolox.runtime.server_loop import at_end_of_turn
from kerolox.store.log.commit_log import Appended, Draft
from kerolox.wire.alike import HEADER_SIZE_MAX, Alike, Columns, alike
from kerolox.wire.command import ONEWAY_BIT
from kerolox.wire.frames import Frame
from kerolox.wire.shapes import FIXED_SIZE

log = logging.getLogger(__name__)

# So much of the beginning of a header tells producers and topics apart.
_KEY_SIZE_MIN, _KEY_SIZE_MAX = 16, 64
_KEY_SIZES_MAX = 8
_KNOWN_MAX = 512
# What may be learnt from is kept until the next message comes.
_BODY_SIZE_MAX = 64 * 1024
# After headers that were not alike, so many requests pass before another is learnt.
_WAIT_COUNT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """One request stands for all that are like it."""

    alike: Alike
    request: Incoming[Any]
    traits: Traits


class _Gathered:
    """What came of one kind in this turn, and from whom how many."""

    __slots__ = ("bodies", "headers", "owners")

    def __init__(self) -> None:
        self.headers: list[bytes] = []
        self.bodies: list[bytes] = []
        self.owners: list[tuple[Connection, int]] = []


class AlikeSends:
    def __init__(self, plain: PlainSends, storing: Storing) -> None:
        self._plain = plain
        self._storing = storing
        plain.learn = self._learn
        # By size, and by how they begin.
        self._known: dict[tuple[int, bytes], _Known] = {}
        self._key_sizes: tuple[int, ...] = ()
        self._gathered: dict[_Known, _Gathered] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        # How many requests pass before one is learnt.
        self._wait_count = 0

    def sift(self, frames: Sequence[Frame], connection: Connection) -> Sequence[Frame]:
        """Puts aside the frames of one read if they are like one that is known; returns them if they are not."""
        count = len(frames)
        if count < FEW and not self._plain.is_busy:
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
            if self._wait_count > 0:
                self._wait_count -= count
            elif size <= HEADER_SIZE_MAX and len(bodies[0]) <= _BODY_SIZE_MAX:
                self._plain.candidate = frames[0]
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

    def _learn(self, frame: Frame, request: Incoming[Any], found: Found) -> None:
        """Remembers a request that was taken."""
        serialization, header, body = frame
        unique_key, keys, traits = found
        # Bytes are told apart by what they are, not by what they say: but for those of one byte.
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
            self._known[len(header), key] = _Known(learnt, replace(request, body=b"", origin=None), traits)

    def _forget(self, known: _Known) -> None:
        """Has headers read one by one that are not alike after all, at least for some time."""
        self._known = {key: value for key, value in self._known.items() if value is not known}
        self._wait_count = _WAIT_COUNT

    def _end(self) -> None:
        all_gathered, self._gathered = self._gathered, {}
        count = sum(len(gathered.headers) for gathered in all_gathered.values())
        self._plain.is_busy = count >= FEW
        for known, gathered in all_gathered.items():
            run = None
            try:
                if len(gathered.headers) >= FEW:
                    run = self._run(known, gathered)
            except Exception:
                # Whatever it is, they and all others must get their answers.
                log.exception("%d sends that are alike are looked at one by one", len(gathered.headers))
                self._forget(known)
            if run is not None:
                run.submit(self._storing)
            else:
                self._hand_back(known.alike.serialization, gathered)

    def _hand_back(self, serialization: int, gathered: _Gathered) -> None:
        """Has requests answered one by one."""
        frames = [(serialization, *frame) for frame in zip(gathered.headers, gathered.bodies, strict=True)]
        start = 0
        for connection, count in gathered.owners:
            try:
                connection.answer(frames[start : start + count])
            except Exception:
                # Whatever is wrong with one peer, the others must get their answers.
                log.exception("closed the connection to %s", connection.remote)
                connection.abort()
            start += count

    def _run(self, known: _Known, gathered: _Gathered) -> "_AlikeRun | None":
        """Returns what stores the messages; None if they have to be looked at one by one."""
        like, plain = known.alike, self._plain
        columns = like.columns(gathered.headers)
        if columns is None:
            self._forget(known)
            return None
        sizes = list(map(len, gathered.bodies))
        usual = plain.usual(known.request.header.topic)
        properties_size = len(like.before) + like.unique_key_size + len(like.after)
        hosts = [host for connection, count in gathered.owners for host in (born_host(connection.remote),) * count]
        is_usual = (
            usual is not None
            and max(columns.queue_ids) < usual.queue_count
            and plain.fits(min(sizes), max(sizes), properties_size, len(sizes))
            and len(set(map(len, hosts))) == 1
        )
        if usual is None or not is_usual:
            return None
        return _AlikeRun(plain, usual.topic, usual.queue_count, known, columns, gathered, hosts)


class _AlikeRun(Run):
    """Messages that are alike on their way to the log."""

    __slots__ = ("_bodies", "_columns", "_hosts", "_known", "_owners")

    def __init__(
        self,
        sends: PlainSends,
        topic: str,
        queue_count: int,
        known: _Known,
        columns: Columns,
        gathered: _Gathered,
        hosts: list[Host],
    ) -> None:
        super().__init__(sends, topic, queue_count)
        self._known = known
        self._columns = columns
        self._bodies = gathered.bodies
        self._owners = gathered.owners
        self._hosts = hosts
        sends.lane.under_way += len(hosts)

    def make(self, storing: Storing, size_max: int) -> list[Draft]:
        like, traits = self._known.alike, self._known.traits
        header, columns, bodies = like.sending, self._columns, self._bodies
        after = self._sends.closed(like.after)
        keys = columns.unique_keys
        if len(set(map(len, bodies))) > 1:
            times, sys_flag, flag = header.reconsume_times or 0, header.sys_flag, header.flag
            rows = zip(
                *(columns.queue_ids, repeat(flag), repeat(sys_flag), columns.born_timestamps, self._hosts),
                *(repeat(times), bodies, [like.before + key + after for key in keys]),
                strict=False,
            )
            found = [(key, b"", traits) for key in keys]
            return storing.drafts.plain(self.topic, storing.store_host, list(rows), found, size_max)
        first = Message(
            self.topic,
            bodies[0],
            like.before + keys[0] + after,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_host=self._hosts[0],
            store_host=storing.store_host,
            reconsume_times=header.reconsume_times or 0,
        )
        varying = Varying(columns.queue_ids, columns.born_timestamps, self._hosts, bodies, keys)
        return storing.drafts.alike(first, len(after), varying, traits, size_max)

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None:
        if not is_durable or len(appended) < len(self._drafts):
            self._tell_apart()
            super().stored(first, appended, is_durable)
            return
        sends, columns = self._sends, self._columns
        size = appended[-1].end_offset - appended[0].physical_offset
        sends.count(self, len(self._hosts), size)
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
        self._tell_apart()
        super().refused(first, count, error)

    def _refuse_all(self, error: Exception) -> None:
        self._tell_apart()
        super()._refuse_all(error)

    def _tell_apart(self) -> None:
        """Makes requests of what came, for those who have to know each."""
        if not self.requests:
            origins = [connection for connection, count in self._owners for _ in range(count)]
            self.requests = [
                replace(self._known.request, opaque=opaque, origin=origin)
                for opaque, origin in zip(self._columns.opaques, origins, strict=True)
            ]
            self.found = [(key, b"", self._known.traits) for key in self._columns.unique_keys]
