"""The table of who answers what, and how much of it at once."""

import asyncio

import pytest

from kerolox.codes import ResponseCode
from kerolox.errors import SystemBusy
from kerolox.remoting.client import Client
from kerolox.remoting.limits import Limits
from kerolox.remoting.routes import Incoming, Routes, handles
from kerolox.runtime.lanes import Lane
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import GetKVConfig, GetKVListByNamespace, KVConfigFound
from kerolox.wire.reply import Reply
from tests.remoting.support import Echo, Peer, ask_slow, get, get_slow, serving, until


class SecondOwner:
    @handles(GetKVConfig)
    def also(self, request: Incoming[GetKVConfig]) -> Reply[KVConfigFound]:
        return Reply()


class WrongRequest:
    @handles(GetKVConfig)
    def get(self, request: Incoming[GetKVListByNamespace]) -> Reply[KVConfigFound]:
        return Reply()


class WrongAnswer:
    @handles(GetKVConfig)  # type: ignore[arg-type]
    def get(self, request: Incoming[GetKVConfig]) -> Reply[Empty]:
        return Reply()


class WithoutTypes:
    @handles(GetKVConfig)
    def get(self, request):  # type: ignore[no-untyped-def]
        return Reply()


class QuotedTypes:
    @handles(GetKVConfig)
    def get(self, request: "Incoming[GetKVConfig]") -> "Reply[KVConfigFound]":
        return Reply(KVConfigFound(value="quoted"))


def test_a_code_with_two_owners_is_refused() -> None:
    with pytest.raises(TypeError, match=r"SecondOwner\.also for GetKVConfig: Echo\.get answers it already"):
        Routes(Echo(), SecondOwner())


@pytest.mark.parametrize("processor", [WrongRequest, WrongAnswer, WithoutTypes])
def test_a_method_that_takes_or_gives_something_else_is_refused(processor: type) -> None:
    message = rf"{processor.__name__}.get for GetKVConfig: takes Incoming\[GetKVConfig\], gives Reply\[KVConfigFound\]"
    with pytest.raises(TypeError, match=message):
        Routes(processor())


async def test_types_in_quotes_are_understood(client: Client) -> None:
    async with serving(QuotedTypes()) as server:
        assert (await client.call(server.address, get())).fields.value == "quoted"


async def test_methods_may_be_plain_or_coroutines(client: Client, echo: Echo) -> None:
    echo.gate("open").set()
    async with serving(echo) as server:
        assert (await client.call(server.address, get("plain"))).fields.value == "plain"
        assert (await client.call(server.address, get_slow("open"))).body == b"open"


async def test_a_full_lane_answers_busy_and_admits_again_when_there_is_room(client: Client, echo: Echo) -> None:
    lane = Lane("default", 2)
    async with serving(routes=Routes(echo, lanes={"default": lane})) as server:
        waiting = [asyncio.create_task(client.call(server.address, get_slow(name))) for name in ("a", "b")]
        await until(lambda: lane.under_way == 2)

        with pytest.raises(SystemBusy) as caught:
            await client.call(server.address, get_slow("c"))
        echo.gate("a").set()
        await waiting[0]
        echo.gate("d").set()

        assert (await client.call(server.address, get_slow("d"))).body == b"d"
        assert (caught.value.remark or "").startswith("[OVERLOAD]system busy, 2 requests under way in lane 'default'")
        echo.gate("b").set()
        await waiting[1]
        assert lane.under_way == 0


async def test_a_full_lane_does_not_stop_what_is_answered_at_once(client: Client, echo: Echo) -> None:
    lanes = {"default": Lane("default", 0)}
    async with serving(routes=Routes(echo, lanes=lanes)) as server:
        assert (await client.call(server.address, get("plain"))).fields.value == "plain"


async def test_a_connection_has_a_bound_on_requests_in_flight(echo: Echo) -> None:
    routes = Routes(echo)
    async with (
        serving(routes=routes, limits=Limits(requests_in_flight_max=3)) as server,
        await Peer.to(server.address) as peer,
        await Peer.to(server.address) as other,
    ):
        await peer.send(b"".join(ask_slow("gate", opaque=number) for number in range(4)))
        refused = await peer.answer()
        await other.send(ask_slow("gate"))
        await until(lambda: len(echo.asked) == 4)
        echo.gate("gate").set()

        assert (refused.opaque, refused.code) == (3, ResponseCode.SYSTEM_BUSY)
        assert refused.remark == "[OVERLOAD]system busy, 3 requests in flight on this connection"
        assert {answer.code for answer in await peer.answers(3)} == {ResponseCode.SUCCESS}
        assert (await other.answer()).code == ResponseCode.SUCCESS
    assert routes._lanes["default"].under_way == 0


async def test_a_request_ended_before_its_first_step_leaves_its_lane(echo: Echo) -> None:
    routes = Routes(echo)
    async with (
        serving(routes=routes) as server,
        await Peer.to(server.address) as peer,
    ):
        await peer.send(ask_slow("gate"))
        await until(lambda: routes._lanes["default"].under_way)

        await server.close()

    assert routes._lanes["default"].under_way == 0
