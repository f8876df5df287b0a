"""Long polls: how they count in request queues, and when they end."""

import asyncio

from kerolox.remoting.long_polling import LongPolls
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.runtime.request_queue import RequestQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import GetKVListByNamespace
from kerolox.wire.reply import Reply
from tests.remoting.support import Peer, ask_slow, serving, until


class Waiting:
    """Parks requests until the test opens the gate; "late" parks only after its connection is lost."""

    def __init__(self, request_queue: RequestQueue) -> None:
        self.request_queue = request_queue
        self.gate = asyncio.Event()
        self.cancelled: list[str] = []

    @handles(GetKVListByNamespace, request_queue="pull")
    async def wait(self, request: Incoming[GetKVListByNamespace]) -> Reply[Empty]:
        if request.header.namespace == "late":
            await request.connection.closed
        try:
            with LongPolls(self.request_queue, request.connection):
                await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.header.namespace)
            raise
        return Reply(body=request.header.namespace.encode())


async def test_parked_requests_take_no_room_in_the_request_queue() -> None:
    request_queue = RequestQueue("pull", 1)
    waiting = Waiting(request_queue)
    async with (
        serving(router=Router(waiting, request_queues={"pull": request_queue})) as server,
        await Peer.to(server.address) as peer,
    ):
        for number in range(3):
            await peer.send(ask_slow(f"{number}", opaque=number))
            await until(lambda: request_queue.parked > number)  # noqa: B023

        waiting.gate.set()

        assert {answer.body for answer in await peer.answers(3)} == {b"0", b"1", b"2"}
        assert (request_queue.under_way, request_queue.parked) == (0, 0)


async def test_a_parked_request_ends_with_its_connection() -> None:
    request_queue = RequestQueue("pull", 10)
    waiting = Waiting(request_queue)
    async with serving(router=Router(waiting, request_queues={"pull": request_queue})) as server:
        async with await Peer.to(server.address) as peer:
            await peer.send(ask_slow("parked") + ask_slow("late"))
            await until(lambda: request_queue.parked == 1 and request_queue.under_way == 1)

        await until(lambda: request_queue.parked == request_queue.under_way == 0)

        assert sorted(waiting.cancelled) == ["late", "parked"]
        assert [task for task in asyncio.all_tasks() if "_carry_out" in repr(task)] == []


class Large:
    """Responds with more than fits into the socket buffers."""

    SIZE = 4 * 1024 * 1024

    def __init__(self) -> None:
        self.made = 0

    @handles(GetKVListByNamespace)
    async def make(self, request: Incoming[GetKVListByNamespace]) -> Reply[Empty]:
        self.made += 1
        return Reply(body=bytes(self.SIZE))


async def test_no_response_is_built_while_the_peer_has_not_read_the_last() -> None:
    large = Large()
    request_queue = RequestQueue("default", 100)
    async with (
        serving(router=Router(large, request_queues={"default": request_queue})) as server,
        await Peer.to(server.address, receive_buffer=4096) as greedy,
        await Peer.to(server.address) as other,
    ):
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await greedy.send(b"".join(ask_slow("n", opaque=number) for number in range(20)))
        await until(lambda: large.made + request_queue.parked == 20 and request_queue.under_way == 0)

        # Some responses are in the kernel, and one was started while nothing was pending.
        assert sum(connection.unsent_size for connection in server._connections) < 2 * large.SIZE
        assert large.made < 10

        await other.send(ask_slow("n"))
        assert len((await other.answer()).body) == large.SIZE
        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert sorted(answer.opaque for answer in await greedy.answers(20)) == list(range(20))
        assert (request_queue.under_way, request_queue.parked) == (0, 0)


async def test_many_small_responses_count_as_one_large_one() -> None:
    """They are built in one loop iteration, before any of them is sent."""
    large = Large()
    large.SIZE = 100 * 1024
    request_queue = RequestQueue("default", 1000)
    async with (
        serving(router=Router(large, request_queues={"default": request_queue})) as server,
        await Peer.to(server.address, receive_buffer=4096) as greedy,
    ):
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await greedy.send(b"".join(ask_slow("n", opaque=number) for number in range(100)))
        await until(lambda: large.made + request_queue.parked == 100 and request_queue.under_way == 0)

        assert sum(connection.unsent_size for connection in server._connections) < 1024 * 1024

        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await greedy.answers(100)) == 100


async def test_requests_that_wait_for_a_slow_reader_end_when_it_disconnects() -> None:
    large = Large()
    request_queue = RequestQueue("default", 100)
    async with serving(router=Router(large, request_queues={"default": request_queue})) as server:
        async with await Peer.to(server.address, receive_buffer=4096) as greedy:
            greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await greedy.send(b"".join(ask_slow("n", opaque=number) for number in range(20)))
            await until(lambda: large.made and large.made + request_queue.parked == 20 and request_queue.under_way == 0)
            assert request_queue.parked
            greedy.writer.transport.abort()

        await until(lambda: large.made == 20)

        await until(lambda: (request_queue.under_way, request_queue.parked) == (0, 0))
