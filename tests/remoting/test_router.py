"""The router: handlers by request code, and limits on concurrent requests."""

import asyncio

import pytest

from kerolox.codes import ResponseCode
from kerolox.errors import SystemBusy
from kerolox.remoting.client import Client
from kerolox.remoting.limits import Limits
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.runtime.request_queue import RequestQueue
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


def test_two_handlers_of_one_code_are_refused() -> None:
    with pytest.raises(TypeError, match=r"SecondOwner\.also for GetKVConfig: Echo\.get handles it already"):
        Router(Echo(), SecondOwner())


@pytest.mark.parametrize("processor", [WrongRequest, WrongAnswer, WithoutTypes])
def test_a_handler_with_other_types_than_its_request_is_refused(processor: type) -> None:
    message = rf"{processor.__name__}.get for GetKVConfig: expected Incoming\[GetKVConfig\] -> Reply\[KVConfigFound\]"
    with pytest.raises(TypeError, match=message):
        Router(processor())


async def test_quoted_annotations_are_resolved(client: Client) -> None:
    async with serving(QuotedTypes()) as server:
        assert (await client.call(server.address, get())).fields.value == "quoted"


async def test_methods_may_be_plain_or_coroutines(client: Client, echo: Echo) -> None:
    echo.gate("open").set()
    async with serving(echo) as server:
        assert (await client.call(server.address, get("plain"))).fields.value == "plain"
        assert (await client.call(server.address, get_slow("open"))).body == b"open"


async def test_a_full_request_queue_answers_busy_and_admits_again_when_there_is_room(
    client: Client, echo: Echo
) -> None:
    request_queue = RequestQueue("default", 2)
    async with serving(router=Router(echo, request_queues={"default": request_queue})) as server:
        waiting = [asyncio.create_task(client.call(server.address, get_slow(name))) for name in ("a", "b")]
        await until(lambda: request_queue.under_way == 2)

        with pytest.raises(SystemBusy) as caught:
            await client.call(server.address, get_slow("c"))
        echo.gate("a").set()
        await waiting[0]
        echo.gate("d").set()

        assert (await client.call(server.address, get_slow("d"))).body == b"d"
        assert (caught.value.remark or "").startswith("[OVERLOAD]system busy, 2 requests under way in queue 'default'")
        echo.gate("b").set()
        await waiting[1]
        assert request_queue.under_way == 0


async def test_a_full_request_queue_does_not_stop_synchronous_handlers(client: Client, echo: Echo) -> None:
    request_queues = {"default": RequestQueue("default", 0)}
    async with serving(router=Router(echo, request_queues=request_queues)) as server:
        assert (await client.call(server.address, get("plain"))).fields.value == "plain"


async def test_a_connection_has_a_bound_on_requests_in_flight(echo: Echo) -> None:
    router = Router(echo)
    async with (
        serving(router=router, limits=Limits(requests_in_flight_max=3)) as server,
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
    assert router._request_queues["default"].under_way == 0


async def test_a_request_cancelled_before_its_first_step_leaves_its_request_queue(echo: Echo) -> None:
    router = Router(echo)
    async with (
        serving(router=router) as server,
        await Peer.to(server.address) as peer,
    ):
        await peer.send(ask_slow("gate"))
        await until(lambda: router._request_queues["default"].under_way)

        await server.close()

    assert router._request_queues["default"].under_way == 0
