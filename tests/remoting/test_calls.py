"""Requests and responses in both directions."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from kerolox.codes import RequestCode, ResponseCode
from kerolox.errors import (
    AnswerError,
    CallTimeout,
    ConnectionLost,
    NoPermission,
    ProtocolError,
    QueryNotFound,
    RequestCodeNotSupported,
    SystemBusy,
    SystemFailure,
    TopicNotFound,
)
from kerolox.remoting.client import Client
from kerolox.remoting.router import Router
from kerolox.remoting.server.server import Server
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT
from kerolox.wire.headers.namesrv import DeleteKVConfig
from tests.remoting.support import (
    Echo,
    Peer,
    ask,
    ask_slow,
    ask_unknown,
    complaints,
    get,
    get_slow,
    get_unknown,
    serving,
    until,
)


async def test_a_call_returns_header_and_body_of_its_answer(server: Server, client: Client) -> None:
    reply = await client.call(server.address, get("colour"), b"body")

    assert (reply.fields.value, reply.body) == ("colour", b"body")


async def test_answers_come_in_any_order_on_one_connection(server: Server, client: Client, echo: Echo) -> None:
    first = asyncio.create_task(client.call(server.address, get_slow("first")))
    second = asyncio.create_task(client.call(server.address, get_slow("second")))
    await until(lambda: len(echo.asked) == 2)

    echo.gate("second").set()

    assert (await second).body == b"second"
    assert not first.done()
    echo.gate("first").set()
    assert (await first).body == b"first"
    assert server.connections == 1


async def test_a_thousand_calls_at_once_each_get_their_own_answer(server: Server, client: Client, echo: Echo) -> None:
    async def call(number: int) -> str | None:
        return (await client.call(server.address, get(str(number)))).fields.value

    assert await asyncio.gather(*map(call, range(1000))) == [str(number) for number in range(1000)]


async def test_a_call_timeout_names_code_address_and_seconds(server: Server, client: Client) -> None:
    with pytest.raises(CallTimeout) as caught:
        await client.call(server.address, get_slow("never"), timeout_seconds=0.01)

    assert str(caught.value) == f"no answer to GET_KVLIST_BY_NAMESPACE from {server.address} within 0.01 s"


async def test_a_late_answer_is_ignored(
    server: Server, client: Client, echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kerolox.remoting")
    with pytest.raises(CallTimeout):
        await client.call(server.address, get_slow("late"), timeout_seconds=0.01)

    echo.gate("late").set()
    await until(lambda: "with unknown opaque" in caplog.text)

    assert (await client.call(server.address, get("next"))).fields.value == "next"
    assert complaints(caplog) == []
    assert server.connections == 1


async def test_a_connection_lost_while_waiting_ends_every_call(server: Server, client: Client, echo: Echo) -> None:
    calls = [asyncio.create_task(client.call(server.address, get_slow("never"))) for _ in range(3)]
    await until(lambda: len(echo.asked) == 3)

    await server.close()

    for call in calls:
        with pytest.raises(ConnectionLost, match=r"connection to 127\.0\.0\.1:\d+ was lost"):
            await call
    assert len({id(call.exception()) for call in calls}) == 3


async def test_a_call_cancelled_as_its_connection_is_lost_leaves_nothing_behind(
    server: Server, client: Client, echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    call = asyncio.create_task(client.call(server.address, get_slow("never")))
    await until(lambda: echo.asked)
    connection = await client.connection(server.address)

    connection.connection_lost(None)
    call.cancel()
    await asyncio.wait([call])

    assert complaints(caplog) == []


async def test_a_oneway_request_gets_no_answer(server: Server, echo: Echo) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(ask("quiet", flag=ONEWAY_BIT) + ask("loud", opaque=2))

        assert (await peer.answer()).opaque == 2
    assert echo.asked == ["quiet", "loud"]


@pytest.mark.parametrize("error", [TopicNotFound("gone"), RuntimeError("broken")])
async def test_a_oneway_request_gets_no_answer_even_if_it_fails(server: Server, echo: Echo, error: Exception) -> None:
    echo.error = error
    echo.gate("slow").set()
    async with await Peer.to(server.address) as peer:
        await peer.send(ask(flag=ONEWAY_BIT) + ask_unknown(flag=ONEWAY_BIT) + ask_slow("slow", flag=ONEWAY_BIT))
        await until(lambda: len(echo.asked) == 2)
        await peer.send(ask(opaque=2))

        assert (await peer.answer()).opaque == 2


async def test_a_oneway_call_reaches_the_server(server: Server, client: Client, echo: Echo) -> None:
    await client.call_oneway(server.address, get("quiet"))

    await until(lambda: echo.asked == ["quiet"])


async def test_a_oneway_request_is_carried_out_though_its_sender_has_left(server: Server, echo: Echo) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(ask_slow("slow", flag=ONEWAY_BIT))
        await until(lambda: echo.asked)
    await until(lambda: server.connections == 0)
    work = [task for task in asyncio.all_tasks() if "_carry_out" in repr(task)]

    echo.gate("slow").set()

    await asyncio.wait_for(asyncio.gather(*work), 5)
    assert len(work) == 1


async def test_a_server_asks_its_client_over_the_clients_own_connection(server: Server, echo: Echo) -> None:
    answerer = Echo()
    async with Client(Router(answerer)) as client:
        reply = await client.call(server.address, DeleteKVConfig(namespace="n", key="who"))

    assert reply.body == b"who"
    assert answerer.asked == ["who"]
    assert echo.asked == []


async def test_a_client_without_handlers_answers_request_code_not_supported(server: Server, client: Client) -> None:
    with pytest.raises(RequestCodeNotSupported, match="request type 101 not supported"):
        await client.call(server.address, DeleteKVConfig(namespace="n", key="who"))


@pytest.mark.parametrize("kind", [TopicNotFound, NoPermission, QueryNotFound, SystemBusy, SystemFailure])
async def test_the_error_a_processor_raises_is_the_one_its_caller_catches(
    server: Server, client: Client, echo: Echo, kind: type[AnswerError], caplog: pytest.LogCaptureFixture
) -> None:
    echo.error = kind("the reason")

    with pytest.raises(AnswerError) as caught:
        await client.call(server.address, get())

    assert type(caught.value) is kind
    assert caught.value.remark == "the reason"
    assert complaints(caplog) == []


async def test_an_answer_with_a_code_that_has_no_class_keeps_its_code(
    server: Server, client: Client, echo: Echo
) -> None:
    echo.error = AnswerError("odd", code=ResponseCode.FLUSH_DISK_TIMEOUT)

    with pytest.raises(AnswerError) as caught:
        await client.call(server.address, get())

    assert type(caught.value) is AnswerError
    assert caught.value.code == ResponseCode.FLUSH_DISK_TIMEOUT


async def test_an_unknown_code_gets_javas_remark(server: Server, client: Client) -> None:
    with pytest.raises(RequestCodeNotSupported) as caught:
        await client.call(server.address, get_unknown())

    assert caught.value.remark == f" request type {RequestCode.PUT_KV_CONFIG} not supported"


@pytest.mark.parametrize(("code", "frame"), [(101, ask()), (219, ask_slow("open"))], ids=["plain", "coroutine"])
async def test_an_exception_in_a_processor_is_answered_and_logged_with_its_traceback(
    server: Server, echo: Echo, code: int, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    echo.gate("open").set()
    echo.error = ZeroDivisionError("one over zero")
    async with await Peer.to(server.address) as peer:
        await peer.send(frame)

        answer = await peer.answer()

    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: one over zero")
    assert complaints(caplog) == [f"request {code} failed"]
    assert "raise self.error" in caplog.text


async def test_a_header_without_a_required_field_is_answered_with_its_name(server: Server) -> None:
    frame = ask().replace(b'"key":"k"', b'"kay":"k"')
    async with await Peer.to(server.address) as peer:
        await peer.send(frame)

        answer = await peer.answer()

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "`key`" in (answer.remark or "")


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":101,"opaque":7,"flag":0,"extFields":{"namespace":"n","key":"k"}}',
        b'{"extFields":{"key":"k","namespace":"n"},"flag":0,"opaque":7,"code":101}',
        b' { "code" : 101 , "opaque" : 7 , "extFields" : { "namespace" : "n" , "key" : "k" } } ',
        b'{"code":101,"opaque":7,"extFields":{"namespace":1,"key":"k","more":null}}',
        b'{"code":101,"opaque":7,"extFields":{"namespace":"n","key":"k"},"stranger":[{}],"remark":null}',
        b'{"code":101,"opaque":7," serialization":7777," body":"AAAA","extFields":{"namespace":"n","key":"k"}}',
        b'{"code":101,"opaque":7,"serialization":1,"body":"AAAA","origin":{},"extFields":{"namespace":"n","key":"k"}}',
    ],
)
async def test_a_header_in_any_json_layout_is_decoded(
    server: Server, header: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(struct.pack(">II", 8 + len(header), len(header)) + header + b"body")

        answer = await peer.answer()

    assert (answer.opaque, answer.serialization, answer.code, answer.body) == (7, JSON, ResponseCode.SUCCESS, b"body")
    assert complaints(caplog) == []


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":101,"opaque":7}',
        b'{"code":101,"opaque":7,"extFields":null}',
        b'{"code":101,"opaque":7,"extFields":[]}',
        b'{"code":101,"opaque":7,"extFields":{}}',
    ],
)
async def test_a_header_without_usable_fields_is_answered_without_a_traceback(
    server: Server, header: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(struct.pack(">II", 4 + len(header), len(header)) + header)

        assert (await peer.answer()).code == ResponseCode.SYSTEM_ERROR
    assert complaints(caplog) == []


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_an_answer_comes_in_the_serialization_of_its_request(server: Server, serialization: int) -> None:
    async with await Peer.to(server.address) as peer:
        await peer.send(ask("colour", opaque=3, body=b"body", serialization=serialization))

        answer = await peer.answer()

    assert (answer.serialization, answer.opaque, answer.body) == (serialization, 3, b"body")


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_an_error_comes_in_the_serialization_of_its_request(
    server: Server, echo: Echo, serialization: int
) -> None:
    echo.error = TopicNotFound("gone")
    async with await Peer.to(server.address) as peer:
        await peer.send(ask(serialization=serialization))

        answer = await peer.answer()

    assert (answer.serialization, answer.code, answer.remark) == (
        serialization,
        ResponseCode.TOPIC_NOT_EXIST,
        "gone",
    )


async def test_an_answer_too_long_for_a_frame_becomes_an_error(server: Server, client: Client, echo: Echo) -> None:
    echo.answer_size = 16 * 1024 * 1024

    with pytest.raises(SystemFailure, match="at most 16777216 allowed"):
        await client.call(server.address, get())


async def test_a_request_too_long_for_a_frame_is_not_sent(server: Server, client: Client, echo: Echo) -> None:
    with pytest.raises(ProtocolError, match="at most 16777216 allowed"):
        await client.call(server.address, get(), bytes(16 * 1024 * 1024))

    assert (await client.call(server.address, get("next"))).fields.value == "next"
    assert echo.asked == ["next"]


async def test_a_call_to_a_peer_that_does_not_read_ends_in_time() -> None:
    """Neither a call nor a oneway may wait for ever to be sent."""
    async with deaf() as (address, client, _):
        await client.call_oneway(address, get(), bytes(8 * 1024 * 1024))
        await client.call_oneway(address, get(), bytes(8 * 1024 * 1024))

        with pytest.raises(CallTimeout, match=f"no answer to GET_KV_CONFIG from {address}"):
            await client.call(address, get(), timeout_seconds=0.01)
        with pytest.raises(CallTimeout, match=f"GET_KV_CONFIG could not be sent to {address} within 0.01 s"):
            await client.call_oneway(address, get(), timeout_seconds=0.01)


async def test_a_call_that_waits_to_be_sent_fails_when_the_connection_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async with deaf() as (address, client, _):
        await client.call_oneway(address, get(), bytes(8 * 1024 * 1024))
        await client.call_oneway(address, get(), bytes(8 * 1024 * 1024))
        connection = await client.connection(address)
        call = asyncio.create_task(client.call(address, get()))
        await until(lambda: connection._writable is not None)

        connection.abort()

        with pytest.raises(ConnectionLost, match=f"connection to {address} is closed"):
            await call
    assert complaints(caplog) == []


async def test_a_connection_that_wrote_the_rest_after_its_close_can_be_aborted() -> None:
    async with deaf() as (address, client, listener):
        await client.call_oneway(address, get(), bytes(8 * 1024 * 1024))
        connection = await client.connection(address)
        connection.close()
        assert not connection.closed.done()
        await asyncio.to_thread(read_all, listener)
        await connection.closed

        connection.abort()

        assert connection.is_closed


def read_all(listener: socket.socket) -> None:
    peer, _ = listener.accept()
    with peer:
        peer.settimeout(20)
        while peer.recv(1 << 20):
            pass


@contextlib.asynccontextmanager
async def deaf() -> AsyncIterator[tuple[str, Client, socket.socket]]:
    """A client, and a listening socket that never reads: the kernel completes the connection."""
    async with Client() as client:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            yield "{}:{}".format(*listener.getsockname()), client, listener


async def test_a_lost_client_leaves_its_request_to_be_finished_or_ended_by_close(echo: Echo) -> None:
    router = Router(echo)
    async with serving(router=router) as server:
        async with await Peer.to(server.address) as peer:
            await peer.send(ask_slow("never"))
            await until(lambda: echo.asked)
        await until(lambda: server.connections == 0)

    assert [task for task in asyncio.all_tasks() if "_carry_out" in repr(task)] == []
    assert router._request_queues["default"].under_way == 0
