"""Members of a group are notified of changes, with one notice for changes at about the same time."""

import asyncio
from contextlib import AsyncExitStack

from tests.broker.brokers import BrokerFixture
from tests.broker.tables.test_client_registry import Member, member
from tests.remoting.support import until


async def joined(broker: BrokerFixture, stack: AsyncExitStack, count: int) -> list[Member]:
    members = [await stack.enter_async_context(member(broker, f"member-{number}")) for number in range(count)]
    await asyncio.gather(*(one.join() for one in members))
    return members


async def test_a_hundred_members_that_join_at_once_get_a_few_notices_each(broker: BrokerFixture) -> None:
    """With a notice per join there would be 5,050 in total."""
    async with AsyncExitStack() as stack:
        members = await joined(broker, stack, 100)

        notices = [await one.next_notice() for one in members]
        notices += [group for one in members for group in await one.notices_so_far()]

        assert set(notices) == {"group"}
        assert len(notices) <= 500


async def test_each_member_is_notified_when_one_more_joins_after_a_burst(broker: BrokerFixture) -> None:
    async with AsyncExitStack() as stack:
        members = await joined(broker, stack, 50)
        await until(lambda: not broker.broker.clients._notices._scheduled)
        for one in members:
            await one.notices_so_far()

        await (await stack.enter_async_context(member(broker, "one more"))).join()

        assert [await one.next_notice() for one in members] == ["group"] * 50
        assert len(await members[0].members()) == 51


async def test_a_change_right_after_a_notice_is_notified_too(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one, member(broker, "two") as two:
        for _ in range(3):
            await one.join()
            await one.next_notice()
            await two.join()
            assert (await one.next_notice(), await two.next_notice()) == ("group", "group")
            await two.leave()
            assert await one.next_notice() == "group"
            assert await one.members() == ["one"]
            await one.leave()


async def test_a_group_without_members_is_forgotten(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one:
        await one.join()
        await one.next_notice()

        await one.leave()

        notices = broker.broker.clients._notices
        assert (notices._notified_at, notices._scheduled) == ({}, set())
