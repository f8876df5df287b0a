"""The comparison of outputs accepts only the allowed differences."""

from __future__ import annotations

import pytest

from tests.compat.similarity import Similarity, similarity

_ROUTE = '{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"a"},{"brokerAddrs":{0:"b:1"},"brokerName":"b"}]}'
_OTHER_ORDER = '{"brokerDatas":[{"brokerAddrs":{0:"b:1"},"brokerName":"b"},{"brokerAddrs":{0:"a:1"},"brokerName":"a"}]}'
_SWAPPED_ADDRESSES = (
    '{"brokerDatas":[{"brokerAddrs":{0:"b:1"},"brokerName":"a"},{"brokerAddrs":{0:"a:1"},"brokerName":"b"}]}'
)
_OLD_LINK = "See http://rocketmq.apache.org/docs/faq/ for further details."
_NEW_LINK = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@pytest.mark.parametrize(
    ("apache", "ours", "expected"),
    [
        (_ROUTE, _ROUTE, Similarity.SAME),
        (_ROUTE, _OTHER_ORDER, Similarity.OTHER_ORDER),
        (_ROUTE, _SWAPPED_ADDRESSES, Similarity.DIFFERENT),
        (_OLD_LINK, _NEW_LINK, Similarity.OTHER_LINK),
        ("TopicA\nTopicB", "TopicB\nTopicA", Similarity.OTHER_ORDER),
        ("TopicA\nTopicB", "TopicA", Similarity.DIFFERENT),
        ("TopicA\nTopicA", "TopicA", Similarity.DIFFERENT),
        ("OK, 10", "OK, 9", Similarity.DIFFERENT),
    ],
)
def test_only_order_and_the_link_may_differ(apache: str, ours: str, expected: Similarity) -> None:
    assert similarity(apache, ours) is expected
