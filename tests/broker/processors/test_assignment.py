"""Queue assignment by the broker, over a real socket."""

from pathlib import Path

import pytest

from kerolox.broker.errors import InvalidParameter
from kerolox.errors import NoPermission, TopicNotFound
from kerolox.wire.bodies.clients import AssignmentRequest, Assignments, MessageRequestMode
from kerolox.wire.bodies.pop import MessageRequestModes
from kerolox.wire.headers.clients import GetAllMessageRequestMode, QueryAssignment, SetMessageRequestMode
from tests.broker.brokers import BrokerFixture, running


def assignment_request(**changes: str) -> bytes:
    defaults = {
        "client_id": "c",
        "consumer_group": "group",
        "message_model": "CLUSTERING",
        "strategy_name": "AVG",
        "topic": "orders",
    }
    return AssignmentRequest(**(defaults | changes)).encode()


async def assigned(broker: BrokerFixture, **changes: str) -> list[tuple[int, str]] | None:
    reply = await broker.call(QueryAssignment(), assignment_request(**changes))
    found = Assignments.decode(reply.body).message_queue_assignments
    return None if found is None else sorted((one.message_queue.queue_id, one.mode) for one in found)


def mode(name: str, topic: str = "orders") -> bytes:
    return MessageRequestMode(consumer_group="group", mode=name, pop_share_queue_num=0, topic=topic).encode()


async def test_a_member_gets_its_queues_and_pulls(broker: BrokerFixture) -> None:
    await broker.send("orders", b"x")
    assert await assigned(broker) is None
    await broker.heartbeat(consumes={"group": ["orders"]})

    assert await assigned(broker) == [(number, "PULL") for number in range(4)]
    assert await assigned(broker, message_model="BROADCASTING") == [(number, "PULL") for number in range(4)]
    assert await assigned(broker, client_id="stranger") == []
    assert await assigned(broker, strategy_name="OTHER") is None
    assert await assigned(broker, topic="nothing") is None


async def test_the_pop_mode_of_a_group_survives_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path / "store") as broker:
        await broker.send("orders", b"x")
        await broker.call(SetMessageRequestMode(), mode("POP"))
        reply = await broker.call(GetAllMessageRequestMode())
        assert MessageRequestModes.decode(reply.body).message_request_mode_map["orders"]["group"].mode == "POP"

    async with running(tmp_path / "store") as broker:
        await broker.heartbeat(consumes={"group": ["orders"]})
        assert await assigned(broker) == [(-1, "POP")]


async def test_invalid_modes_are_refused(broker: BrokerFixture) -> None:
    await broker.send("orders", b"x")
    with pytest.raises(NoPermission):
        await broker.call(SetMessageRequestMode(), mode("POP", "%RETRY%group"))
    with pytest.raises(TopicNotFound):
        await broker.call(SetMessageRequestMode(), mode("POP", "nothing"))
    with pytest.raises(InvalidParameter):
        await broker.call(SetMessageRequestMode(), mode("PUSH"))
