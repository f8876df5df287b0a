import pytest

from kerolox.dashboard.lists import gathered, of_users, paged


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


def test_groups_of_brokers_and_tools_are_not_users() -> None:
    assert of_users(["shop", "TOOLS_CONSUMER", "CID_ONSAPI_PULL", "CID_RMQ_SYS_TRANS", "cid_mine"]) == [
        "shop",
        "cid_mine",
    ]
