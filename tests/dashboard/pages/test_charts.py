import asyncio
from typing import Any

from tests.dashboard.browsing import Visitor


async def test_samples_cover_every_chart_and_only_new_ones_are_returned(visitor: Visitor) -> None:
    page = await visitor.get("/charts")
    answer: dict[str, Any] = {"samples": []}
    async with asyncio.timeout(60):
        while not answer["samples"]:
            answer = (await visitor.client.get("/charts/data.json")).json()
            await asyncio.sleep(0.02)

    found = answer["samples"]
    assert answer["problem"] is None
    for name in found[0].keys() - {"millis"}:
        assert f'data-series="{name}"' in page
    last = found[-1]["millis"]
    later = (await visitor.client.get("/charts/data.json", params={"since": last})).json()["samples"]
    assert all(it["millis"] > last for it in later)


async def test_an_invalid_time_is_taken_as_zero(visitor: Visitor) -> None:
    assert (await visitor.client.get("/charts/data.json", params={"since": "x" * 99})).status_code == 200
