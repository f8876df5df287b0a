"""Notifies members of consumer groups of changes of their group, by NOTIFY_CONSUMER_IDS_CHANGED.

Java does this in DefaultConsumerIdsChangeListener.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from kerolox.remoting.connection import Connection, next_opaque
from kerolox.runtime.event_loop import at_end_of_turn
from kerolox.wire.command import JSON, ONEWAY_BIT, encode
from kerolox.wire.headers.clients import NotifyConsumerIdsChanged

log = logging.getLogger(__name__)

# Changes within this time after a notice share the next one. Otherwise, when a thousand members join one after the
# other, each of them would be notified a thousand times.
INTERVAL_SECONDS = 0.1
# Members notified in one iteration of the event loop: each notice is a write to a socket.
_MEMBERS_PER_ITERATION = 500


class GroupNotices:
    """Notifies of the first change at the end of the event loop's iteration, of later ones once per interval.

    `members_to_notify` returns the connections of a group's members, and none if the group wants no notices.
    """

    def __init__(self, members_to_notify: Callable[[str], Iterable[Connection]]) -> None:
        self._members_to_notify = members_to_notify
        self._scheduled: set[str] = set()
        # Group → time of its last notice.
        self._notified_at: dict[str, float] = {}

    def changed(self, group: str) -> None:
        """Notify the members of a change, together with other changes at about the same time."""
        if group in self._scheduled:
            return
        self._scheduled.add(group)
        loop = asyncio.get_running_loop()
        notified_at = self._notified_at.get(group)
        if notified_at is None or loop.time() - notified_at >= INTERVAL_SECONDS:
            at_end_of_turn(loop, partial(self._notify, group))
        else:
            loop.call_at(notified_at + INTERVAL_SECONDS, self._notify, group)

    def group_ended(self, group: str) -> None:
        """Forget a group whose last member has left."""
        self._notified_at.pop(group, None)

    def _notify(self, group: str) -> None:
        self._scheduled.discard(group)
        members = list(self._members_to_notify(group))
        if not members:
            return
        self._notified_at[group] = asyncio.get_running_loop().time()
        notice = NotifyConsumerIdsChanged(consumer_group=group)
        frame = encode(JSON, code=notice.code, opaque=next_opaque(), flag=ONEWAY_BIT, ext=notice.ext())
        self._send(group, frame, members)

    def _send(self, group: str, frame: bytes, members: list[Connection]) -> None:
        for member in members[:_MEMBERS_PER_ITERATION]:
            if member.is_writable and not member.is_closed:
                member.send(frame)
            else:
                log.debug("%s could not be notified that group %s has changed", member.remote, group)
        remaining = members[_MEMBERS_PER_ITERATION:]
        if remaining:
            asyncio.get_running_loop().call_soon(self._send, group, frame, remaining)
