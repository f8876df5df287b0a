"""Java's map order, toString and JSON."""

from kerolox.admin import Track, TrackType
from kerolox.cli.admin import java_format
from kerolox.errors import ConsumerNotOnline
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.routes import BrokerData


def test_maps_are_in_the_order_of_a_java_hash_map() -> None:
    """The expected order is from the output of Java's mqadmin for a message."""
    table = dict.fromkeys(("KEYS", "UNIQ_KEY", "WAIT", "TAGS", "CLUSTER", "MIN_OFFSET", "MAX_OFFSET"), 1)

    assert list(java_format.in_hash_order(table)) == [
        *("MIN_OFFSET", "MAX_OFFSET", "KEYS", "UNIQ_KEY", "CLUSTER", "WAIT", "TAGS"),
    ]


def test_larger_maps_have_more_buckets() -> None:
    keys = [f"key{number}" for number in range(40)]

    assert sorted(java_format.in_hash_order(dict.fromkeys(keys, 1))) == sorted(keys)
    assert list(java_format.in_hash_order(dict.fromkeys(keys, 1))) != list(
        java_format.in_hash_order(dict.fromkeys(keys[:10], 1))
    )


def test_queues_are_in_the_order_of_a_java_hash_map() -> None:
    """The expected order is from the output of Java's allocateMQ."""
    queues = [MessageQueue("broker-a", number, "script") for number in range(4)]

    assert [queue.queue_id for queue in java_format.queues_in_hash_order(queues)] == [3, 2, 1, 0]


def test_values_are_formatted_as_in_java() -> None:
    assert java_format.text({0: "a", 1: None}) == "{0=a, 1=null}"
    assert java_format.to_string("Name", (("is", True), ("of", None))) == "Name [is=true, of=null]"
    assert java_format.queue(MessageQueue("b", 1, "t")) == "MessageQueue [topic=t, brokerName=b, queueId=1]"
    assert [java_format.perm(bits) for bits in (2, 4, 6, 7)] == ["-W-", "R--", "RW-", "RWX"]


def test_a_track_contains_its_error() -> None:
    error = ConsumerNotOnline("nobody")

    assert java_format.track(Track("shop", TrackType.NOT_ONLINE, error)) == (
        "MessageTrack [consumerGroup=shop, trackType=NOT_ONLINE, exceptionDesc=CODE:206 DESC:nobody]"
    )


def test_pretty_json_equals_fastjsons() -> None:
    broker = BrokerData("broker-a", "c", {0: "a:1", 1: "a:2"})

    assert java_format.pretty_json({"list": ["x", "y"], "empty": {}, "none": None, "objects": [{"a": 1.5}]}) == (
        '{\n\t"list":["x","y"],\n\t"empty":{},\n\t"objects":[\n\t\t{\n\t\t\t"a":1.5\n\t\t}\n\t]\n}'
    )
    assert java_format.pretty_json(broker).splitlines()[1:3] == ['\t"brokerAddrs":{0:"a:1",1:"a:2"', "\t},"]
