"""Traces, as an operator looks them up."""

from pathlib import Path

from kerolox.admin import AdminClient
from kerolox.client import Producer
from kerolox.client.trace import Pub, Record, SubAfter, SubBefore, messages_of
from kerolox.testing import Cluster
from tests.client.sessions import options

SENT = Pub(timestamp=1, group="senders", topic="orders", message_id="A1", keys="k1 k2", store_host="127.0.0.1:1")
HANDED = SubBefore(timestamp=2, group="shop", request_id="R", message_id="A1", keys="k1 k2")
DONE = SubAfter(timestamp=3, group="shop", request_id="R", message_id="A1", keys="k1 k2", cost_millis=1)
OTHER = Pub(timestamp=1, group="senders", topic="orders", message_id="A2", keys="k2")


async def test_what_is_told_of_a_message_is_found_by_its_id_and_by_its_keys(tmp_path: Path) -> None:
    async with (
        Cluster(tmp_path, settings={"traceTopicEnable": "true"}) as cluster,
        AdminClient(namesrv_addr=cluster.namesrv_addr) as admin,
    ):
        async with Producer("tracers", options=options(cluster)) as producer:
            batches: list[list[Record]] = [[HANDED, DONE], [SENT, OTHER]]
            for records in batches:
                for message in messages_of(records):
                    await producer.send(message)

        assert await admin.traces.of_message("A1") == [SENT, HANDED, DONE]
        assert await admin.traces.of_message("A3") == []
        assert await admin.traces.by_key("k2") == [SENT, OTHER, HANDED, DONE]
