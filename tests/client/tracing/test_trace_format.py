"""Message dispatcher in Java's format."""

import asyncio

import pytest

from kerolox.client.messages import Message
from kerolox.client.tracing import trace_format
from kerolox.client.tracing.trace_format import (
    EndTransaction,
    Pub,
    Recall,
    Record,
    SubAfter,
    SubBefore,
    TraceDispatcher,
)
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
    message_type=trace_format.DELAY,
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
    context_code=trace_format.EXCEPTION,
    timestamp=1700000000000,
    group="CG",
)
END = EndTransaction(
    timestamp=1, topic="orders", message_id="M", transaction_id="T", transaction_state="COMMIT_MESSAGE"
)
RECALL = Recall(timestamp=1, topic="orders", message_id="M", is_success=False)


def fields(record: Record) -> list[str]:
    text = trace_format.encode(record)
    assert text.endswith("\x02")
    return text[:-1].split("\x01")


# Field order and constants are those of TraceDataEncoder.java.


def test_a_pub_record_has_javas_field_order() -> None:
    assert " ".join(fields(PUB)) == (
        "Pub 1700000000000 DefaultRegion PG orders 7F0000010001 TagA k1 k2 127.0.0.1:10911 5 3 3 7F00000100002A9F true"
    )


def test_sub_records_have_javas_field_order_and_null_for_missing_values() -> None:
    assert fields(BEFORE) == ["SubBefore", "1700000000000", "DefaultRegion", "CG", "R", "M", "2", "null"]
    assert fields(AFTER) == ["SubAfter", "R", "M", "7", "false", "k", "2", "1700000000000", "CG"]


def test_transaction_and_recall_records_have_javas_field_order() -> None:
    assert fields(END) == (
        ["EndTransaction", "1", "", "", "orders", "M", "null", "null", "null", "2", "T", "COMMIT_MESSAGE", "false"]
    )
    assert fields(RECALL) == ["Recall", "1", "", "", "orders", "M", "false"]


def test_records_survive_a_round_trip() -> None:
    records: list[Record] = [PUB, BEFORE, AFTER, END, RECALL]

    assert trace_format.decode("".join(map(trace_format.encode, records))) == records


def test_missing_fields_of_older_clients_have_defaults() -> None:
    without_offset_id = "\x01".join(["Pub", "1", "r", "g", "t", "m", "a", "k", "h", "5", "3", "0", "true"])
    without_time = "\x01".join(["SubAfter", "R", "M", "7", "true", "k", "0"])

    pub, after = trace_format.decode(f"{without_offset_id}\x02{without_time}\x02")

    assert isinstance(pub, Pub)
    assert (pub.offset_id, pub.is_success) == ("", True)
    assert isinstance(after, SubAfter)
    assert (after.timestamp, after.group) == (0, None)


def test_unknown_types_and_extra_fields_are_ignored() -> None:
    longer = trace_format.encode(RECALL)[:-1] + "\x01more\x02"

    assert trace_format.decode(f"Tomorrow\x011\x02{longer}") == [RECALL]


@pytest.mark.parametrize("text", ["Pub\x01soon\x02", "Pub\x02"])
def test_a_malformed_record_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError, match="type Pub"):
        trace_format.decode(text)


def test_separators_in_values_are_replaced() -> None:
    (read,) = trace_format.decode(trace_format.encode(SubBefore(timestamp=1, keys="a\x01b\x02c")))

    assert isinstance(read, SubBefore)
    assert read.keys == "a b c"


def test_a_trace_message_has_the_traced_ids_and_keys_as_keys() -> None:
    (message,) = trace_format.messages_of([PUB, BEFORE, BEFORE])

    assert message.topic == "RMQ_SYS_TRACE_TOPIC"
    assert message.keys == ("7F0000010001", "k1", "k2", "M")
    assert trace_format.decode(message.body.decode()) == [PUB, BEFORE, BEFORE]


def test_trace_messages_respect_javas_size_limit() -> None:
    long = SubBefore(timestamp=1, keys="k" * 60_000)

    messages = trace_format.messages_of([long] * 5)

    assert [len(trace_format.decode(message.body.decode())) for message in messages] == [2, 2, 1]


class RecordingSend:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.error: Exception | None = None

    async def __call__(self, message: Message) -> None:
        if self.error is not None:
            raise self.error
        self.messages.append(message)

    @property
    def counts(self) -> list[int]:
        return [len(trace_format.decode(message.body.decode())) for message in self.messages]


async def test_ten_records_are_sent_at_once_and_fewer_after_five_seconds() -> None:
    clock, sent = ManualClock(), RecordingSend()
    dispatcher = TraceDispatcher(sent, clock)
    dispatcher.start()

    dispatcher.add(*[PUB] * 12)
    await until(lambda: sent.counts == [10])

    await clock.advance(4.9)
    assert sent.counts == [10]
    await clock.advance(0.2)
    await until(lambda: sent.counts == [10, 2])
    await dispatcher.close()


async def test_close_sends_the_queued_records() -> None:
    sent = RecordingSend()
    dispatcher = TraceDispatcher(sent, ManualClock())
    dispatcher.start()

    dispatcher.add(*[PUB] * 3)
    await dispatcher.close()

    assert sent.counts == [3]


async def test_records_that_are_too_many_or_cannot_be_sent_are_dropped() -> None:
    sent = RecordingSend()
    sent.error = SystemBusy("later")
    dispatcher = TraceDispatcher(sent, ManualClock())
    dispatcher.start()

    dispatcher.add(*[PUB] * (trace_format.WAITING_MAX + 5))
    await asyncio.sleep(0)
    await dispatcher.close()

    assert dispatcher.lost_count == trace_format.WAITING_MAX + 5
    assert dispatcher.sent_count == 0


async def test_a_burst_is_sent_in_large_concurrent_batches() -> None:
    gate, in_flight, counts = asyncio.Event(), 0, []

    async def send(message: Message) -> None:
        nonlocal in_flight
        in_flight += 1
        counts.append(len(trace_format.decode(message.body.decode())))
        await gate.wait()

    dispatcher = TraceDispatcher(send, ManualClock())
    dispatcher.start()
    dispatcher.add(*[PUB] * 2000)
    await until(lambda: in_flight == trace_format.CONCURRENT_BATCHES_MAX)
    assert counts == [trace_format.BURST_BATCH_COUNT] * trace_format.CONCURRENT_BATCHES_MAX
    assert dispatcher.waiting_count == 1200

    gate.set()
    await until(lambda: dispatcher.sent_count == 2000)

    assert dispatcher.lost_count == 0
    await dispatcher.close()


async def test_losses_are_logged_at_once_and_then_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock, gate = ManualClock(), asyncio.Event()

    async def send(message: Message) -> None:
        await gate.wait()

    dispatcher = TraceDispatcher(send, clock, waiting_max=20)
    for _ in range(3):
        dispatcher.add(*[PUB] * 25)
    await clock.advance(trace_format.WARNING_SECONDS)
    dispatcher.add(PUB)
    gate.set()
    await dispatcher.close()

    assert [record.message for record in caplog.records] == [
        "5 message traces were lost: 20 records are queued already",
        "51 message traces were lost: 20 records are queued already",
    ]
    assert (dispatcher.lost_count, dispatcher.sent_count) == (56, 20)
