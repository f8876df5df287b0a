"""What Java's classes say of themselves."""

from kerolox.admin import Track, TrackType
from kerolox.cli.admin import java
from kerolox.errors import ConsumerNotOnline
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.routes import BrokerData


def test_maps_are_in_the_order_of_javas_hash() -> None:
    """As seen in what Java's mqadmin prints of a message."""
    table = dict.fromkeys(("KEYS", "UNIQ_KEY", "WAIT", "TAGS", "CLUSTER", "MIN_OFFSET", "MAX_OFFSET"), 1)

    assert list(java.in_hash_order(table)) == [
        *("MIN_OFFSET", "MAX_OFFSET", "KEYS", "UNIQ_KEY", "CLUSTER", "WAIT", "TAGS"),
    ]


def test_larger_maps_have_more_buckets() -> None:
    keys = [f"key{number}" for number in range(40)]

    assert sorted(java.in_hash_order(dict.fromkeys(keys, 1))) == sorted(keys)
    assert list(java.in_hash_order(dict.fromkeys(keys, 1))) != list(java.in_hash_order(dict.fromkeys(keys[:10], 1)))


def test_queues_are_in_the_order_of_javas_hash() -> None:
    """As seen in what Java's mqadmin allots."""
    queues = [MessageQueue("broker-a", number, "script") for number in range(4)]

    assert [queue.queue_id for queue in java.queues_in_hash_order(queues)] == [3, 2, 1, 0]


def test_values_are_joined_as_java_joins_them() -> None:
    assert java.text({0: "a", 1: None}) == "{0=a, 1=null}"
    assert java.members("Name", (("is", True), ("of", None))) == "Name [is=true, of=null]"
    assert java.queue(MessageQueue("b", 1, "t")) == "MessageQueue [topic=t, brokerName=b, queueId=1]"
    assert [java.perm(bits) for bits in (2, 4, 6, 7)] == ["-W-", "R--", "RW-", "RWX"]


def test_a_track_says_why_it_is_not_known() -> None:
    error = ConsumerNotOnline("nobody")

    assert java.track(Track("shop", TrackType.NOT_ONLINE, error)) == (
        "MessageTrack [consumerGroup=shop, trackType=NOT_ONLINE, exceptionDesc=CODE:206 DESC:nobody]"
    )


def test_json_for_people_is_fastjsons() -> None:
    broker = BrokerData("broker-a", "c", {0: "a:1", 1: "a:2"})

    assert java.pretty({"list": ["x", "y"], "empty": {}, "none": None, "objects": [{"a": 1.5}]}) == (
        '{\n\t"list":["x","y"],\n\t"empty":{},\n\t"objects":[\n\t\t{\n\t\t\t"a":1.5\n\t\t}\n\t]\n}'
    )
    assert java.pretty(broker).splitlines()[1:3] == ['\t"brokerAddrs":{0:"a:1",1:"a:2"', "\t},"]
