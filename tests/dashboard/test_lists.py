import pytest

from kerolox.dashboard.lists import gathered, paged


@pytest.mark.parametrize(
    ("number", "items", "shown"), [(1, [0, 1, 2], 1), (3, [6], 3), (99, [6], 3)], ids=["first", "last", "beyond"]
)
def test_a_page_has_its_part_of_the_list(number: int, items: list[int], shown: int) -> None:
    part = paged(range(7), number, 3)

    assert list(part.items) == items
    assert (part.number, part.count, part.total) == (shown, 3, 7)


def test_a_list_of_nothing_has_one_page() -> None:
    assert paged([], 5).count == 1


async def test_answers_come_in_the_order_of_the_questions() -> None:
    async def double(number: int) -> int:
        return number * 2

    assert await gathered(range(50), double) == list(range(0, 100, 2))
