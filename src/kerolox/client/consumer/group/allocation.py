"""Strategies that divide the queues of a topic among the members of a group (AllocateMessageQueueStrategy).

Every member computes its own queues from the same two sorted lists, so all members must use the same strategy.
"""

import bisect
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from kerolox.wire.bodies.queues import MessageQueue

Queues = Sequence[MessageQueue]
# (all queues sorted, all members sorted, one of these members) → the queues of that member.
Share = Callable[[Queues, Sequence[str], str], list[MessageQueue]]


@dataclass(frozen=True, slots=True)
class Strategy:
    """An allocation function, and the name by which brokers and tools know it."""

    name: str
    share: Share

    def allocate(self, queues: Collection[MessageQueue], members: Collection[str], member: str) -> list[MessageQueue]:
        """Return the queues of a member; none if it is not among the members."""
        if member not in members:
            return []
        return self.share(sorted(queues, key=java_order), sorted(members), member)


def _averagely(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
    """Consecutive queues for each member; the first members get the remainder, one each."""
    index, remainder = members.index(member), len(queues) % len(members)
    each = len(queues) // len(members)
    start = index * each + min(index, remainder)
    return list(queues[start : start + each + (index < remainder)])


def _by_circle(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
    return list(queues[members.index(member) :: len(members)])


AVERAGELY: Final = Strategy("AVG", _averagely)
BY_CIRCLE: Final = Strategy("AVG_BY_CIRCLE", _by_circle)


def by_config(queues: Collection[MessageQueue]) -> Strategy:
    """Always these queues. The application must make sure that every queue has a member."""
    fixed = list(queues)
    return Strategy("CONFIG", lambda queues, members, member: list(fixed))


def by_machine_room(rooms: Collection[str]) -> Strategy:
    """Only queues of brokers named `room@broker` with a room in `rooms`; the remainder is given one by one."""
    known = frozenset(rooms)

    def share(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
        near = [queue for queue in queues if _room_of(queue.broker_name) in known]
        index, each = members.index(member), len(near) // len(members)
        own = near[index * each : (index + 1) * each]
        left_over = each * len(members) + index
        return own + near[left_over : left_over + 1]

    return Strategy("MACHINE_ROOM", share)


def by_machine_room_nearby(
    inner: Strategy, *, room_of_queue: Callable[[MessageQueue], str], room_of_member: Callable[[str], str]
) -> Strategy:
    """By `inner` within each machine room; the queues of rooms without a member are divided among all members."""

    def share(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(_known_room(room_of_queue(queue), queue), []).append(queue)
        members_of: dict[str, list[str]] = {}
        for other in members:
            members_of.setdefault(_known_room(room_of_member(other), other), []).append(other)
        here = room_of_member(member)
        own = inner.share(queues_of.get(here, []), members_of[here], member)
        for room in sorted(queues_of.keys() - members_of.keys()):
            own += inner.share(queues_of[room], members, member)
        return own

    return Strategy(f"MACHINE_ROOM_NEARBY-{inner.name}", share)


def md5_hash(text: str) -> int:
    """Return the first four bytes of the MD5 digest, like Java's ConsistentHashRouter."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def by_consistent_hash(virtual_nodes: int = 10, hashed: Callable[[str], int] = md5_hash) -> Strategy:
    """Consistent hashing with `virtual_nodes` points per member: a member that joins or leaves moves few queues."""
    if virtual_nodes < 1:
        raise ValueError(f"virtual_nodes={virtual_nodes} must be at least 1")

    def share(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
        ring = {hashed(f"{other}-{number}"): other for other in members for number in range(virtual_nodes)}
        points = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            # Java hashes MessageQueue.toString().
            text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            return ring[points[bisect.bisect_left(points, hashed(text)) % len(points)]]

        return [queue for queue in queues if owner(queue) == member]

    return Strategy("CONSISTENT_HASH", share)


def java_order(queue: MessageQueue) -> tuple[str, str, int]:
    """The sort key of Java's MessageQueue.compareTo."""
    return queue.topic, queue.broker_name, queue.queue_id


def _room_of(broker_name: str) -> str | None:
    room, at, rest = broker_name.partition("@")
    return room if at and rest and "@" not in rest else None


def _known_room(room: str, owner: object) -> str:
    if not room:
        raise ValueError(f"{owner} has no machine room")
    return room
