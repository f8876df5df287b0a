"""ConsumerRunningInfo under Java's member names."""

from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo


def test_names_are_javas_including_its_typos() -> None:
    info = ConsumerRunningInfo(
        mq_table={MessageQueue("broker-a", 0, "orders"): ProcessQueueInfo(is_dropped=True, cached_msg_size_in_mi_b=3)},
        status_table={"orders": ConsumeStatus(consume_ok_tps=1.5)},
    )

    written = info.encode()

    assert b'{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{"cachedMsgCount":0' in written
    assert b'"droped":true' in written
    assert b'"cachedMsgSizeInMiB":3' in written
    assert b'"consumeOKTPS":1.5' in written
    assert b'"consumeFailedTPS":0.0' in written
    assert b"jstack" not in written
    assert ConsumerRunningInfo.decode(written) == info
