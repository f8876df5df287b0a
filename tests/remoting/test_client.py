"""The client: connections on demand, shared and re-established; failover between NameServers."""

import asyncio
import gc
import socket

import pytest

from kerolox.errors import ConfigurationError, ConnectFailed, ConnectionLost, QueryNotFound, RemotingError
from kerolox.remoting.client import Client, NameServers
from kerolox.remoting.server.server import Server
from tests.remoting.support import Echo, complaints, get, get_slow, serving, until


def free_address() -> str:
    """Return an address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


async def test_a_client_connects_at_its_first_call(server: Server, client: Client) -> None:
    assert server.connections == 0

    await client.call(server.address, get())

    assert server.connections == 1


async def test_calls_at_once_share_one_attempt_and_one_connection(server: Server, client: Client) -> None:
    connections = await asyncio.gather(*(client.connection(server.address) for _ in range(50)))

    assert len(set(connections)) == 1
    await until(lambda: server.connections == 1)


async def test_cancelling_one_waiter_leaves_the_connection_attempt_to_the_others(
    server: Server, client: Client
) -> None:
    impatient = asyncio.create_task(client.call(server.address, get("impatient")))
    patient = asyncio.create_task(client.call(server.address, get("patient")))
    await asyncio.sleep(0)

    impatient.cancel()

    assert (await patient).fields.value == "patient"
    with pytest.raises(asyncio.CancelledError):
        await impatient


async def test_a_client_connects_again_after_a_loss(server: Server, client: Client, echo: Echo) -> None:
    lost = await client.connection(server.address)
    lost.abort()
    await lost.closed

    assert (await client.call(server.address, get("again"))).fields.value == "again"
    assert await client.connection(server.address) is not lost


async def test_a_client_connects_again_after_the_server_restarts(client: Client, echo: Echo) -> None:
    async with serving(echo) as server:
        address = server.address
        await client.call(address, get())
    with pytest.raises(RemotingError):
        await client.call(address, get())

    host, port = address.split(":")
    restarted = Server(server._router, host=host, port=int(port), clock=server._clock)
    await restarted.open()
    assert (await client.call(address, get("again"))).fields.value == "again"
    await restarted.close()


async def test_a_refused_connection_is_an_error_with_the_address(client: Client) -> None:
    address = free_address()

    with pytest.raises(ConnectFailed, match=f"cannot connect to {address}: .*"):
        await client.call(address, get())


async def test_a_connect_timeout_names_the_address_and_the_seconds() -> None:
    """A listener with a full backlog drops SYN packets, so that connecting times out even without a network."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for connection in (first, second):
            connection.setblocking(False)
            connection.connect_ex(listener.getsockname())
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with Client(connect_timeout_seconds=0.05) as client:
            with pytest.raises(ConnectFailed, match=rf"{address} did not accept within 0\.05 s"):
                await client.call(address, get())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "two..dots", "x" * 70])
async def test_an_unresolvable_host_is_an_error_with_the_address(
    client: Client, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(host: object, *_: object, **__: object) -> None:
        if host == "no-such-host.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        str(host).encode("idna")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    with pytest.raises(ConnectFailed, match=f"cannot connect to {host}:9876: "):
        await client.call(f"{host}:9876", get())


async def test_a_bad_address_is_an_error_in_the_configuration(client: Client) -> None:
    with pytest.raises(ConfigurationError, match="'nonsense' is not an address"):
        await client.call("nonsense", get())


async def test_a_failed_attempt_without_waiters_logs_nothing(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    call = asyncio.create_task(client.call(free_address(), get()))
    await asyncio.sleep(0)
    call.cancel()
    await until(lambda: not client._connecting)
    await asyncio.wait([call])
    del call
    gc.collect()

    assert complaints(caplog) == []


async def test_close_leaves_no_task_and_no_connection(server: Server, echo: Echo) -> None:
    client = Client()
    waiting = asyncio.create_task(client.call(server.address, get_slow("never")))
    await until(lambda: echo.asked)
    before = asyncio.all_tasks()

    await client.close()

    with pytest.raises(ConnectionLost):
        await waiting
    await until(lambda: server.connections == 0)
    assert asyncio.all_tasks() <= before - {waiting}


async def test_close_while_connecting_fails_the_calls_and_not_their_tasks(server: Server) -> None:
    """A cancelled attempt must not look like a cancelled caller."""
    client = Client()
    call = asyncio.create_task(client.call(server.address, get()))
    await asyncio.sleep(0)

    await client.close()

    with pytest.raises(ConnectFailed, match=f"cannot connect to {server.address}: the client was closed meanwhile"):
        await call
    assert not client._connecting


async def test_a_closed_client_does_not_connect(server: Server) -> None:
    client = Client()
    await client.close()

    with pytest.raises(ConnectFailed, match="the client is closed"):
        await client.call(server.address, get())


async def test_close_waits_no_longer_than_a_second_for_a_peer_that_does_not_read() -> None:
    client = Client()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = "{}:{}".format(*listener.getsockname())
        await client.call_oneway(address, get(), bytes(15 * 1024 * 1024))
        connection = await client.connection(address)

        async with asyncio.timeout(5):
            await client.close()

        assert connection.closed.done()


# NameServers


async def test_a_name_server_is_asked_until_it_fails_and_then_the_next(client: Client) -> None:
    first, second = Echo(), Echo()
    async with serving(second) as standing:
        async with serving(first) as falling:
            servers = NameServers(client, [falling.address, standing.address])
            servers.update([falling.address])
            servers.update([falling.address, standing.address])
            for _ in range(3):
                await servers.call(get("sticky"))
            assert (len(first.asked), len(second.asked)) == (3, 0)

        await servers.call(get("moved"))
        await servers.call(get("stays"))

        assert second.asked == ["moved", "stays"]
        assert servers.current == standing.address


async def test_every_name_server_is_asked_at_most_once(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    addresses = [free_address() for _ in range(3)]
    servers = NameServers(client, addresses)

    with pytest.raises(ConnectFailed):
        await servers.call(get())

    assert sorted(message.split()[1] for message in complaints(caplog)) == sorted(addresses)


async def test_an_error_response_does_not_move_on_to_the_next_name_server(client: Client, echo: Echo) -> None:
    other = Echo()
    echo.error = QueryNotFound("nothing")
    async with serving(echo) as one, serving(other) as two:
        servers = NameServers(client, [one.address])
        servers.update([one.address, two.address])

        with pytest.raises(QueryNotFound):
            await servers.call(get())
    assert other.asked == []


async def test_calls_that_fail_at_once_move_on_by_one(client: Client, server: Server, echo: Echo) -> None:
    dead, other = free_address(), free_address()
    servers = NameServers(client, [dead])
    servers.update([dead, server.address, other])

    await asyncio.gather(*(servers.call(get()) for _ in range(2)))

    assert servers.current == server.address
    assert len(echo.asked) == 2


def test_a_new_list_keeps_the_name_server_in_use() -> None:
    servers = NameServers(Client(), ["a:1"])

    servers.update(["b:1", "c:1", "a:1"])
    assert servers.current == "a:1"
    servers.update(["b:1", "c:1"])
    assert servers.current in {"b:1", "c:1"}


@pytest.mark.parametrize("addresses", [[], ["nonsense"], ["a:1", "b:x"]])
def test_an_invalid_list_of_name_servers_changes_nothing(addresses: list[str]) -> None:
    servers = NameServers(Client(), ["a:1"])

    with pytest.raises(ConfigurationError, match="expected host:port"):
        servers.update(addresses)

    assert servers.current == "a:1"


def test_no_name_server_at_all_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="no NameServer address given"):
        NameServers(Client(), [])
