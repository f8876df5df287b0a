"""Progress, added up."""

from kerolox.admin import Progress, QueueProgress
from kerolox.wire.bodies.queues import MessageQueue
from tests.admin.clients import GROUP, QUEUE, TOPIC

OTHER = MessageQueue("broker-a", 1, TOPIC)


def test_the_lag_is_added_up_by_topic_and_by_client() -> None:
    retry = MessageQueue("broker-a", 0, "%RETRY%shop")
    progress = Progress(
        GROUP,
        {
            QUEUE: QueueProgress(10, 4, 5, 0, "one"),
            OTHER: QueueProgress(3, 3, 3, 0, "two"),
            retry: QueueProgress(2, 1, None, 0),
        },
        0.0,
    )

    assert progress.lag == 7
    assert progress.by_topic == {TOPIC: 6, "%RETRY%shop": 1}
    assert progress.by_client == {"one": 6, "two": 0, None: 1}
