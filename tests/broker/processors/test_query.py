"""Looking messages up, over a real socket."""

from pathlib import Path

import pytest

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, QueryNotFound, SystemFailure
from kerolox.message.ids import parse_offset_id
from kerolox.message.record import decode_all
from kerolox.wire.headers.messages import QueryMessage, ViewMessageById
from tests.broker.brokers import BrokerFixture, greedy, running, unsent_size
from tests.remoting.support import until

FOREVER = 2**63 - 1


def by_key(
    key: str, max_num: int = 32, *, is_unique_key: bool | None = None, end_timestamp: int = FOREVER
) -> QueryMessage:
    return QueryMessage(
        topic="orders",
        key=key,
        max_num=max_num,
        begin_timestamp=0,
        end_timestamp=end_timestamp,
        is_unique_key=is_unique_key,
    )


async def test_messages_are_found_by_key_in_the_order_of_the_log(broker: BrokerFixture) -> None:
    for number in range(3):
        last = await broker.send("orders", b"%d" % number, KEYS="a k")
    await broker.send("orders", b"other", KEYS="b")

    reply = await broker.call(by_key("k"))

    assert [message.body for message in decode_all(reply.body)] == [b"0", b"1", b"2"]
    assert reply.fields.index_last_update_timestamp > 0
    assert last.msg_id is not None
    assert reply.fields.index_last_update_phyoffset > parse_offset_id(last.msg_id)[1]
    assert [message.body for message in decode_all((await broker.call(by_key("k", 2))).body)] == [b"1", b"2"]


async def test_a_message_is_found_by_its_unique_key_whatever_number_is_asked_for(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body", UNIQ_KEY="u1")

    reply = await broker.call(by_key("u1", 0, is_unique_key=True))

    assert [message.body for message in decode_all(reply.body)] == [b"body"]


async def test_what_is_not_there_is_not_found(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body", KEYS="k")

    with pytest.raises(QueryNotFound, match="can not find message, maybe time range not correct"):
        await broker.call(by_key("unknown"))
    with pytest.raises(AnswerError) as refused:
        await broker.call(by_key("k", end_timestamp=1))
    assert refused.value.code == ResponseCode.QUERY_NOT_FOUND


async def test_without_an_index_nothing_is_found_by_key(tmp_path: Path) -> None:
    async with running(tmp_path, messageIndexEnable="false") as broker:
        await broker.send("orders", b"body", KEYS="k")

        with pytest.raises(QueryNotFound):
            await broker.call(by_key("k"))


async def test_a_message_is_found_by_its_place(broker: BrokerFixture) -> None:
    await broker.send("orders", b"zero")
    sent = await broker.send("orders", b"body")
    assert sent.msg_id is not None
    _, offset = parse_offset_id(sent.msg_id)

    (message,) = decode_all((await broker.call(ViewMessageById(offset=offset))).body)

    assert (message.body, message.offset_id) == (b"body", sent.msg_id)


@pytest.mark.parametrize("offset", [-1, 1, 2**60])
async def test_where_no_message_begins_none_is_found(broker: BrokerFixture, offset: int) -> None:
    await broker.send("orders", b"body")

    with pytest.raises(SystemFailure, match=f"can not find message by the offset, {offset}"):
        await broker.call(ViewMessageById(offset=offset))


async def test_of_one_peer_only_one_query_is_read_before_it_reads_the_answer(broker: BrokerFixture) -> None:
    for _ in range(10):
        await broker.send("orders", bytes(200 * 1024), KEYS="k")
    lane = broker.broker.routes._lanes["query"]
    async with greedy(broker, [by_key("k")] * 20) as peer:
        await until(lambda: unsent_size(broker) and not lane.under_way)

        assert unsent_size(broker) < 3 * 1024 * 1024
        assert lane.parked
        assert len(decode_all((await broker.call(by_key("k"))).body)) == 10
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert {len(decode_all(answer.body)) for answer in await peer.answers(20)} == {10}
    assert (lane.under_way, lane.parked) == (0, 0)
