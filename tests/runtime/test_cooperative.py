"""Long work that lets other tasks run."""

import asyncio

from kerolox.runtime.cooperative import Turns, in_turns


async def test_other_tasks_run_after_every_few_items() -> None:
    seen: list[str] = []

    async def work() -> None:
        async for number in in_turns("01234", count=2):
            seen.insert(len(seen), number)

    async def other() -> None:
        for _ in range(3):
            seen.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(work(), other())

    assert seen == ["0", "1", "other", "2", "3", "other", "4", "other"]


async def test_steps_are_counted_across_loops() -> None:
    turns = Turns(3)
    taken = asyncio.get_running_loop().create_task(asyncio.sleep(0))
    for _ in range(2):
        await turns.step()
    assert not taken.done()

    await turns.step()
    await asyncio.sleep(0)

    assert taken.done()
