"""Many failovers of three brokers: nothing acknowledged is lost, and all logs are equal in the end."""

import asyncio
import random
from pathlib import Path

import pytest

from kerolox.replication.auto_switch.sync_state_set import SyncStateSet
from kerolox.store.log.pending_acks import AckStatus
from tests.replication.auto_switch.groups import Node
from tests.replication.nodes import assert_equal, until
from tests.store.stores import draft, numbered_records


class Group:
    """Three brokers. The test is the controller: it elects members of the sync state set only."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.nodes: dict[int, Node] = {}
        self.epoch = 0
        self.members = frozenset({1, 2, 3})
        self.version = 1

    async def start(self, broker_id: int) -> Node:
        node = Node(self._root / str(broker_id), broker_id, members_min=2)
        await node.supervisor.open()
        self.nodes[broker_id] = node
        return node

    async def stop(self, broker_id: int) -> None:
        await self.nodes.pop(broker_id).supervisor.close()

    async def elect(self, master_id: int) -> tuple[Node, SyncStateSet]:
        self.epoch += 1
        self.version += 1
        self.members = frozenset({master_id})
        master = self.nodes[master_id]
        master.proposals.clear()
        leading = await master.lead(self.epoch)
        leading.decided(self.members, self.version)
        return master, leading

    async def follow(self, broker_id: int, master: Node) -> None:
        """Let a broker follow, with a restart if its log has to be cut first."""
        node = self.nodes[broker_id]
        node.follow(master)
        restart = asyncio.create_task(node.must_restart.wait())
        try:
            await until(lambda: restart.done() or self._has_joined(broker_id, master))
        finally:
            restart.cancel()
        if node.must_restart.is_set():
            await self.stop(broker_id)
            (await self.start(broker_id)).follow(master)
            await until(lambda: self._has_joined(broker_id, master))

    @staticmethod
    def _has_joined(broker_id: int, master: Node) -> bool:
        return any(broker_id in proposed for proposed in master.proposals)

    def agree(self, leading: SyncStateSet, members: frozenset[int]) -> None:
        self.version += 1
        self.members = members
        leading.decided(members, self.version)


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_acknowledged_is_lost_in_many_failovers(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    group = Group(tmp_path)
    for broker_id in (1, 2, 3):
        await group.start(broker_id)
    acknowledged: list[bytes] = []
    try:
        for turn in range(5):
            master, leading = await group.elect(chance.choice(sorted(group.members)))
            others = [each for each in (1, 2, 3) if each != master.broker_id]
            joined = chance.sample(others, chance.choice([1, 2]))
            for broker_id in joined:
                await group.follow(broker_id, master)
            group.agree(leading, frozenset({master.broker_id, *joined}))
            for number in range(chance.randrange(1, 12)):
                body = b"%d-%d-%d " % (seed, turn, number) + chance.randbytes(chance.choice([0, 500, 2000]))
                _, status = await master.store.put(draft(body))
                assert status is AckStatus.OK
                acknowledged.append(body)
            # The master is cut off, and writes what nobody copies.
            for broker_id in joined:
                group.nodes[broker_id].client.set_master(None)
            await until_alone(master)
            for number in range(chance.randrange(3)):
                _, status = await master.store.put(draft(b"lost %d" % number))
                assert status is AckStatus.FLUSH_SLAVE_TIMEOUT
            master.copies.end()
        master, leading = await group.elect(chance.choice(sorted(group.members)))
        for broker_id in sorted({1, 2, 3} - {master.broker_id}):
            await group.follow(broker_id, master)
        group.agree(leading, frozenset({1, 2, 3}))
        await master.store.put(draft(b"last"))
        for node in group.nodes.values():
            await until_dispatched(node, master.end)
            assert_equal(master.store, node.store)
            assert node.epoch_log.epochs == master.epoch_log.epochs
        stored = [data for _, data in numbered_records(master.store, "orders", 0)]
        expected = [data for data in stored if b"lost " not in data and b"last" not in data]
        assert len(expected) == len(acknowledged)
        assert all(body in data for body, data in zip(acknowledged, expected, strict=True))
    finally:
        for broker_id in list(group.nodes):
            await group.stop(broker_id)


async def until_alone(master: Node) -> None:
    await until(lambda: not master.server.status())


async def until_dispatched(node: Node, end_offset: int) -> None:
    await until(lambda: node.store.dispatcher.offset == end_offset)
