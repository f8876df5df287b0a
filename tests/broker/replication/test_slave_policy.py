"""A slave stores nothing of its own, whichever way a request takes."""

from pathlib import Path
from typing import Any

import pytest

from kerolox.broker.replication.slave_policy import REFUSALS
from kerolox.broker.send.columns import SendColumns
from kerolox.codes import RequestCode, ResponseCode
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from kerolox.wire.headers.messages import QueryMessage
from kerolox.wire.headers.offsets import GetMaxOffset
from tests.broker.brokers import running
from tests.broker.replication.replicas import SLAVE
from tests.broker.send.test_header_blocks import COUNT, frames_of
from tests.broker.test_longest_turn import KNOWN
from tests.policies import FORMS
from tests.policies import frames_of as forms_of
from tests.remoting.support import Peer

CODES = {
    RequestCode.END_TRANSACTION: ResponseCode.SLAVE_NOT_AVAILABLE,
    RequestCode.CONSUMER_SEND_MSG_BACK: ResponseCode.SYSTEM_ERROR,
}


async def test_every_request_that_stores_messages_is_refused_in_every_form(tmp_path: Path) -> None:
    async with running(tmp_path, **SLAVE) as slave, await Peer.to(slave.broker.address) as peer:
        kinds = slave.broker.router.requests
        for code in REFUSALS:
            await peer.send(b"".join(forms_of(kinds[code], KNOWN, 1)))
            answers = await peer.answers(FORMS)

            wanted = CODES.get(RequestCode(code), ResponseCode.SERVICE_NOT_AVAILABLE)
            assert {answer.code for answer in answers} == {wanted}, code
            assert all("brokerRole=SLAVE" in (answer.remark or "") for answer in answers)
        assert slave.broker.store.log.end_offset == 0
        assert "orders" not in slave.broker.topics.topics


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_collected_and_oneway_sends_are_refused(
    tmp_path: Path, serialization: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[Any] = []
    monkeypatch.setattr(SendColumns, "add_block", lambda sends, block: collected.append(block))
    async with running(tmp_path, **SLAVE) as slave, await Peer.to(slave.broker.address) as peer:
        for first in (100_000, 200_000):
            await peer.send(b"".join(frames_of(first, serialization=serialization)))
            answers = await peer.answers(COUNT)
            assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        await peer.send(b"".join(frames_of(300_000, serialization=serialization, flag=ONEWAY_BIT)))
        await slave.call(GetBrokerRuntimeInfo())

        assert slave.broker.store.log.end_offset == 0
        assert collected == []


async def test_a_slave_answers_reads(tmp_path: Path) -> None:
    async with running(tmp_path, **SLAVE) as slave:
        assert (await slave.call(GetMaxOffset(topic="orders", queue_id=0))).fields.offset == 0
        with pytest.raises(Exception, match="not"):
            await slave.call(QueryMessage(topic="orders", key="k", max_num=1, begin_timestamp=0, end_timestamp=2**60))


async def test_services_that_store_messages_do_not_run_on_a_slave(tmp_path: Path) -> None:
    async with running(tmp_path, **SLAVE) as slave:
        broker = slave.broker
        writing = {broker.delivery, broker.timer, broker.pop.revive, broker.transactions}

        assert writing.isdisjoint(broker.services)
        assert broker.replication.metadata_copy in broker.services


async def test_a_master_copies_no_metadata(tmp_path: Path) -> None:
    async with running(tmp_path) as master:
        assert master.broker.replication.metadata_copy not in master.broker.services
