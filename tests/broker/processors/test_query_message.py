"""Queries of messages, over a real socket."""

from pathlib import Path

import msgspec
import pytest

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, QueryNotFound, SystemFailure
from kerolox.message.ids import parse_offset_id
from kerolox.message.records.record import decode_all
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
    *_, last = [await broker.send("orders", b"%d" % number, KEYS="a k") for number in range(3)]
    await broker.send("orders", b"other", KEYS="b")

    reply = await broker.call(by_key("k"))

    assert [message.body for message in decode_all(reply.body)] == [b"0", b"1", b"2"]
    assert reply.fields.index_last_update_timestamp > 0
    assert last.msg_id is not None
    assert reply.fields.index_last_update_phyoffset > parse_offset_id(last.msg_id)[1]
    assert [message.body for message in decode_all((await broker.call(by_key("k", 2))).body)] == [b"1", b"2"]


async def test_a_message_is_found_by_its_unique_key_whatever_the_maximum_number(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body", UNIQ_KEY="u1")

    reply = await broker.call(by_key("u1", 0, is_unique_key=True))

    assert [message.body for message in decode_all(reply.body)] == [b"body"]


async def test_messages_are_found_by_tag_when_the_request_names_the_tag_index(broker: BrokerFixture) -> None:
    await broker.send("orders", b"red", TAGS="red")
    await broker.send("orders", b"blue", TAGS="blue", KEYS="red")
    query = QueryMessage(topic="orders", key="red", max_num=32, begin_timestamp=0, end_timestamp=FOREVER)

    by_tag = await broker.call(msgspec.structs.replace(query, index_type="T"))
    by_key_type = await broker.call(msgspec.structs.replace(query, index_type="K", last_key="ignored"))
    untyped = await broker.call(query)

    assert [message.body for message in decode_all(by_tag.body)] == [b"red"]
    assert [message.body for message in decode_all(by_key_type.body)] == [b"blue"]
    assert untyped.body == by_key_type.body


async def test_the_unique_key_flag_overrides_the_index_type(broker: BrokerFixture) -> None:
    await broker.send("orders", b"body", UNIQ_KEY="u1")

    query = msgspec.structs.replace(by_key("u1", 0, is_unique_key=True), index_type="T")

    assert [message.body for message in decode_all((await broker.call(query)).body)] == [b"body"]


async def test_unknown_keys_are_not_found(broker: BrokerFixture) -> None:
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


async def test_a_message_is_found_by_its_physical_offset(broker: BrokerFixture) -> None:
    await broker.send("orders", b"zero")
    sent = await broker.send("orders", b"body")
    assert sent.msg_id is not None
    _, offset = parse_offset_id(sent.msg_id)

    (message,) = decode_all((await broker.call(ViewMessageById(offset=offset))).body)

    assert (message.body, message.offset_id) == (b"body", sent.msg_id)


@pytest.mark.parametrize("offset", [-1, 1, 2**60])
async def test_offsets_where_no_message_starts_are_not_found(broker: BrokerFixture, offset: int) -> None:
    await broker.send("orders", b"body")

    with pytest.raises(SystemFailure, match=f"can not find message by the offset, {offset}"):
        await broker.call(ViewMessageById(offset=offset))


async def test_one_query_per_connection_runs_until_its_response_is_read(broker: BrokerFixture) -> None:
    for _ in range(10):
        await broker.send("orders", bytes(200 * 1024), KEYS="k")
    request_queue = broker.broker.parts.request_queues["query"]
    async with greedy(broker, [by_key("k")] * 20) as peer:
        await until(lambda: unsent_size(broker) and not request_queue.under_way)

        assert unsent_size(broker) < 3 * 1024 * 1024
        assert request_queue.parked
        assert len(decode_all((await broker.call(by_key("k"))).body)) == 10
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert {len(decode_all(answer.body)) for answer in await peer.answers(20)} == {10}
    assert (request_queue.under_way, request_queue.parked) == (0, 0)
