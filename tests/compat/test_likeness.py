"""The comparison of outputs accepts only the allowed differences."""

from __future__ import annotations

import pytest

from tests.compat.likeness import Likeness, likeness

_ROUTE = '{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"a"},{"brokerAddrs":{0:"b:1"},"brokerName":"b"}]}'
_TURNED = '{"brokerDatas":[{"brokerAddrs":{0:"b:1"},"brokerName":"b"},{"brokerAddrs":{0:"a:1"},"brokerName":"a"}]}'
_CROSSED = '{"brokerDatas":[{"brokerAddrs":{0:"b:1"},"brokerName":"a"},{"brokerAddrs":{0:"a:1"},"brokerName":"b"}]}'
_OLD_LINK = "See http://rocketmq.apache.org/docs/faq/ for further details."
_NEW_LINK = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@pytest.mark.parametrize(
    ("apache", "ours", "expected"),
    [
        (_ROUTE, _ROUTE, Likeness.SAME),
        (_ROUTE, _TURNED, Likeness.OTHER_ORDER),
        (_ROUTE, _CROSSED, Likeness.DIFFERENT),
        (_OLD_LINK, _NEW_LINK, Likeness.OTHER_LINK),
        ("TopicA\nTopicB", "TopicB\nTopicA", Likeness.OTHER_ORDER),
        ("TopicA\nTopicB", "TopicA", Likeness.DIFFERENT),
        ("TopicA\nTopicA", "TopicA", Likeness.DIFFERENT),
        ("OK, 10", "OK, 9", Likeness.DIFFERENT),
    ],
)
def test_only_order_and_the_link_may_differ(apache: str, ours: str, expected: Likeness) -> None:
    assert likeness(apache, ours) is expected
