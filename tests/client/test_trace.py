"""Message traces in Java's format."""

import asyncio

import pytest

from kerolox.client import trace
from kerolox.client.messages import Message
from kerolox.client.trace import EndTransaction, Pub, Recall, Record, SubAfter, SubBefore, Traces
from kerolox.errors import ProtocolError, SystemBusy
from kerolox.runtime.clock import ManualClock
from tests.client.sessions import until

PUB = Pub(
    timestamp=1700000000000,
    region_id="DefaultRegion",
    group="PG",
    topic="orders",
    message_id="7F0000010001",
    tags="TagA",
    keys="k1 k2",
    store_host="127.0.0.1:10911",
    body_size=5,
    cost_millis=3,
    message_type=trace.DELAY,
    offset_id="7F00000100002A9F",
)
BEFORE = SubBefore(
    timestamp=1700000000000, region_id="DefaultRegion", group="CG", request_id="R", message_id="M", retry_times=2
)
AFTER = SubAfter(
    request_id="R",
    message_id="M",
    cost_millis=7,
    is_success=False,
    keys="k",
    context_code=trace.EXCEPTION,
    timestamp=1700000000000,
    group="CG",
)
END = EndTransaction(
    timestamp=1, topic="orders", message_id="M", transaction_id="T", transaction_state="COMMIT_MESSAGE"
)
RECALL = Recall(timestamp=1, topic="orders", message_id="M", is_success=False)


def fields(record: Record) -> list[str]:
    text = trace.encode(record)
    assert text.endswith("\x02")
    return text[:-1].split("\x01")


# The order and the words are those of TraceDataEncoder.java.


def test_a_send_is_written_in_javas_order() -> None:
    assert " ".join(fields(PUB)) == (
        "Pub 1700000000000 DefaultRegion PG orders 7F0000010001 TagA k1 k2 127.0.0.1:10911 5 3 3 7F00000100002A9F true"
    )


def test_consuming_is_written_in_javas_order_and_what_is_not_there_is_null() -> None:
    assert fields(BEFORE) == ["SubBefore", "1700000000000", "DefaultRegion", "CG", "R", "M", "2", "null"]
    assert fields(AFTER) == ["SubAfter", "R", "M", "7", "false", "k", "2", "1700000000000", "CG"]


def test_transactions_and_recalls_are_written_in_javas_order() -> None:
    assert fields(END) == (
        ["EndTransaction", "1", "", "", "orders", "M", "null", "null", "null", "2", "T", "COMMIT_MESSAGE", "false"]
    )
    assert fields(RECALL) == ["Recall", "1", "", "", "orders", "M", "false"]


def test_what_was_written_is_read_again() -> None:
    records: list[Record] = [PUB, BEFORE, AFTER, END, RECALL]

    assert trace.decode("".join(map(trace.encode, records))) == records


def test_records_of_older_clients_are_read_without_what_they_lack() -> None:
    without_offset_id = "\x01".join(["Pub", "1", "r", "g", "t", "m", "a", "k", "h", "5", "3", "0", "true"])
    without_time = "\x01".join(["SubAfter", "R", "M", "7", "true", "k", "0"])

    pub, after = trace.decode(f"{without_offset_id}\x02{without_time}\x02")

    assert isinstance(pub, Pub)
    assert (pub.offset_id, pub.is_success) == ("", True)
    assert isinstance(after, SubAfter)
    assert (after.timestamp, after.group) == (0, None)


def test_types_from_the_future_and_further_fields_are_left_out() -> None:
    longer = trace.encode(RECALL)[:-1] + "\x01more\x02"

    assert trace.decode(f"Tomorrow\x011\x02{longer}") == [RECALL]


@pytest.mark.parametrize("text", ["Pub\x01soon\x02", "Pub\x02"])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="type Pub"):
        trace.decode(text)


def test_a_separator_in_a_key_does_not_make_another_record() -> None:
    (read,) = trace.decode(trace.encode(SubBefore(timestamp=1, keys="a\x01b\x02c")))

    assert isinstance(read, SubBefore)
    assert read.keys == "a b c"


def test_a_trace_is_found_by_the_ids_and_keys_of_what_it_traces() -> None:
    (message,) = trace.messages_of([PUB, BEFORE, BEFORE])

    assert message.topic == "RMQ_SYS_TRACE_TOPIC"
    assert message.keys == ("7F0000010001", "k1", "k2", "M")
    assert trace.decode(message.body.decode()) == [PUB, BEFORE, BEFORE]


def test_no_trace_message_is_longer_than_javas() -> None:
    long = SubBefore(timestamp=1, keys="k" * 60_000)

    messages = trace.messages_of([long] * 5)

    assert [len(trace.decode(message.body.decode())) for message in messages] == [2, 2, 1]


class Sent:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.error: Exception | None = None

    async def __call__(self, message: Message) -> None:
        if self.error is not None:
            raise self.error
        self.messages.append(message)

    @property
    def counts(self) -> list[int]:
        return [len(trace.decode(message.body.decode())) for message in self.messages]


async def test_ten_records_are_sent_at_once_and_fewer_after_five_seconds() -> None:
    clock, sent = ManualClock(), Sent()
    traces = Traces(sent, clock)
    traces.start()

    traces.add(*[PUB] * 12)
    await until(lambda: sent.counts == [10])

    await clock.advance(4.9)
    assert sent.counts == [10]
    await clock.advance(0.2)
    await until(lambda: sent.counts == [10, 2])
    await traces.close()


async def test_what_is_waiting_is_sent_at_the_end() -> None:
    sent = Sent()
    traces = Traces(sent, ManualClock())
    traces.start()

    traces.add(*[PUB] * 3)
    await traces.close()

    assert sent.counts == [3]


async def test_what_cannot_be_sent_or_is_too_much_is_lost_and_disturbs_nobody() -> None:
    sent = Sent()
    sent.error = SystemBusy("later")
    traces = Traces(sent, ManualClock())
    traces.start()

    traces.add(*[PUB] * (trace.WAITING_MAX + 5))
    await asyncio.sleep(0)
    await traces.close()

    assert traces.lost_count == trace.WAITING_MAX + 5
