"""How the queues of a topic are shared out among the members of a group: the strategies of Java's client.

Every member computes its own share from the same two sorted lists, so that all must use the same strategy.
"""

import bisect
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from kerolox.wire.bodies.queues import MessageQueue

Queues = Sequence[MessageQueue]
# Of all queues and all members, sorted, those of one member, which is among them.
Share = Callable[[Queues, Sequence[str], str], list[MessageQueue]]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to share, and the name under which servers and tools know it."""

    name: str
    share: Share

    def allocate(self, queues: Collection[MessageQueue], members: Collection[str], member: str) -> list[MessageQueue]:
        """Returns the queues of a member; none while the brokers do not count it as one."""
        if member not in members:
            return []
        return self.share(sorted(queues, key=java_order), sorted(members), member)


def _averagely(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
    """A row of queues for each member; the first members get one more where it does not come out even."""
    index, more = members.index(member), len(queues) % len(members)
    each = len(queues) // len(members)
    start = index * each + min(index, more)
    return list(queues[start : start + each + (index < more)])


def _by_circle(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
    return list(queues[members.index(member) :: len(members)])


AVERAGELY: Final = Strategy("AVG", _averagely)
BY_CIRCLE: Final = Strategy("AVG_BY_CIRCLE", _by_circle)


def by_config(queues: Collection[MessageQueue]) -> Strategy:
    """These queues, whatever others have: somebody else sees to it that all queues have an owner."""
    fixed = list(queues)
    return Strategy("CONFIG", lambda queues, members, member: list(fixed))


def by_machine_room(rooms: Collection[str]) -> Strategy:
    """Only the queues of brokers named `room@something`, in one of `rooms`; what is left over goes one by one."""
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
    """By `inner` within a machine room; the queues of rooms in which nobody consumes are shared by all."""

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
    """Returns the first four bytes of the MD5, as Java's ring has them."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def by_consistent_hash(virtual_nodes: int = 10, hashed: Callable[[str], int] = md5_hash) -> Strategy:
    """Each member has `virtual_nodes` places on a ring, and the queues before each: few change hands with a member."""
    if virtual_nodes < 1:
        raise ValueError(f"{virtual_nodes} virtual nodes, at least 1 needed")

    def share(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
        ring = {hashed(f"{other}-{number}"): other for other in members for number in range(virtual_nodes)}
        places = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            # How Java prints a queue is what it hashes.
            text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            return ring[places[bisect.bisect_left(places, hashed(text)) % len(places)]]

        return [queue for queue in queues if owner(queue) == member]

    return Strategy("CONSISTENT_HASH", share)


def java_order(queue: MessageQueue) -> tuple[str, str, int]:
    """The order in which Java's clients share queues out."""
    return queue.topic, queue.broker_name, queue.queue_id


def _room_of(broker_name: str) -> str | None:
    room, at, rest = broker_name.partition("@")
    return room if at and rest and "@" not in rest else None


def _known_room(room: str, what: object) -> str:
    if not room:
        raise ValueError(f"{what} is in no machine room")
    return room
