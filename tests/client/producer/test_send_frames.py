import pytest

from kerolox.client.messages import Message
from kerolox.client.options import Options
from kerolox.client.producer.encoding import EncodedMessage, MessageEncoder
from kerolox.client.producer.send_frames import SendFrames
from kerolox.errors import ProtocolError
from kerolox.message.ids import UniqueIds
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.command import JSON, encode
from kerolox.wire.headers.messages import SendMessageV2

QUEUE = MessageQueue("broker-a", 3, "orders")


def request(out: EncodedMessage, queue: MessageQueue) -> SendMessageV2:
    return out.request(
        producer_group="100%",
        topic=out.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue.queue_id,
        sys_flag=out.sys_flag,
        born_timestamp=out.born_millis,
        flag=out.flag,
        properties=out.properties,
        reconsume_times=out.reconsume_times,
        unit_mode=False,
        max_reconsume_times=out.max_reconsume_times,
        batch=out.kind == "batch",
        broker_name=queue.broker_name,
    )


def typed(out: EncodedMessage, queue: MessageQueue, opaque: int) -> bytes:
    header = request(out, queue)
    return encode(JSON, code=header.code, opaque=opaque, language="PYTHON", ext=header.ext(), body=out.body)


def test_frames_equal_those_of_the_typed_header() -> None:
    encoder = MessageEncoder(
        Options(namesrv_addr="a:1", client_ip="127.0.0.1"), UniqueIds(bytes(4)), max_message_size=100_000
    )
    frames = SendFrames(request)
    odd = Message("orders", b"\x00\xff", tag='"ä%s%d\\', properties={"x": "%(y)s"}, flag=-7)
    cases = [
        encoder.encode(Message("orders", b"body", tag="t")),
        encoder.encode(odd),
        encoder.encode_batch([odd, odd]),
        encoder.encode_unchecked("%RETRY%group", b"b", {"RETRY_TOPIC": "t"}, reconsume_times=3, max_reconsume_times=16),
        encoder.encode_unchecked(
            "%RETRY%group", b"b", {"RETRY_TOPIC": "t"}, reconsume_times=4, max_reconsume_times=5, sys_flag=0x301
        ),
        encoder.encode_unchecked("C_REPLY_TOPIC", b"b", {}, kind="reply"),
    ]

    # The second time from the stored templates.
    for out in [*cases, *cases]:
        for queue in (QUEUE, MessageQueue("broker-b", 0, "orders")):
            assert frames.frame_builder(out, queue)(77) == typed(out, queue, 77)


def test_a_frame_over_the_size_limit_is_refused() -> None:
    with pytest.raises(ProtocolError, match="the limit of 16777216"):
        SendFrames(request).frame_builder(EncodedMessage("t", bytes(16 * 1024 * 1024), "", "I"), QUEUE)(1)
