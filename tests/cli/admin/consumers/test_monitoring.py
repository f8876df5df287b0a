"""Reports of `startMonitoring`."""

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.cli.admin import connection_options
from kerolox.cli.admin.command import Call
from kerolox.cli.admin.consumers import monitoring
from kerolox.client.sync import Message, Options, Producer, PushConsumer
from kerolox.wire.bodies.queues import MessageQueue
from tests.cli.admin.tools import ORDERS, SHOP, Tool

EVENT = (
    b'{"consumerGroup":"shop","messageQueue":{"brokerName":"broker-a","queueId":1,"topic":"orders"},'
    b'"offsetNew":4,"offsetRequest":999}'
)


def test_lag_is_reported_each_round(
    tool: Tool,
    client: AdminClient,
    options: Options,
    consumer: PushConsumer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client.offsets.commit(SHOP, MessageQueue("broker-a", 1, ORDERS), 1)
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise OSError("enough")

    monkeypatch.setattr(monitoring, "pause", wait)

    result = tool.run("startMonitoring")

    rounds = result.stdout.split("[MONITOR] =========================================beginRound\n")[1:]
    assert len(rounds) == 2
    assert all(it.endswith("[MONITOR] =========================================endRound\n") for it in rounds)
    assert "[MONITOR] reportUndoneMsgs: UndoneMsgs [consumerGroup=shop, topic=orders, undoneMsgsTotal=" in rounds[0]
    assert waits[0] == monitoring.FIRST_SECONDS


@pytest.mark.usefixtures("sent")
async def test_pulls_from_deleted_offsets_are_reported(tool: Tool, options: Options) -> None:
    with Producer("brokers", options=options) as producer:
        producer.send(Message("moved", EVENT))

    async with connection_options.admin_client(connection_options.client_options(tool.namesrv_addr)) as admin:
        reports = [part.text() async for part in monitoring.offset_moved_events(Call(admin, {}), 0, "moved")]
        unknown_topic = [part async for part in monitoring.offset_moved_events(Call(admin, {}), 0, "nothing")]

    assert unknown_topic == []
    assert reports[0].startswith(
        "[MONITOR] reportDeleteMsgsEvent: DeleteMsgsEvent [offsetMovedEvent=OffsetMovedEvent [consumerGroup=shop, "
        "messageQueue=MessageQueue [topic=orders, brokerName=broker-a, queueId=1], offsetRequest=999, offsetNew=4], "
    )
