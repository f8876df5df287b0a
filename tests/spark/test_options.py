"""Options for reading, and the errors for invalid ones."""

import json
import pickle

import pytest

from kerolox.spark.option_parser import OptionError
from kerolox.spark.options import ReadOptions, read_options
from kerolox.spark.read.offset_json import EARLIEST, LATEST
from kerolox.wire.bodies.queues import MessageQueue

BASE = {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}


def _read(is_stream: bool = False, **options: object) -> ReadOptions:
    given = {name.replace("__", "."): _text(value) for name, value in options.items()}
    return read_options({name.lower(): text for name, text in {**BASE, **given}.items() if text}, is_stream=is_stream)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_streams_start_at_latest_and_batches_at_earliest_by_default() -> None:
    assert (_read(is_stream=True).start.word, _read().start.word, _read().end.word) == (LATEST, EARLIEST, LATEST)


def test_all_options_are_parsed() -> None:
    options = _read(
        is_stream=True,
        subscribe="orders , bills",
        startingGroup="shop",
        startingOffsets="latest",
        maxOffsetsPerTrigger=1000,
        minOffsetsPerTrigger=10,
        maxTriggerDelay="30s",
        maxBytesPerTrigger=5000,
        minPartitions=4,
        maxRecordsPerPartition=100,
        failOnDataLoss="false",
        rocketmq__consumerGroup="spark",
        tags="a || b",
        includeProperties="true",
        valueFormat="string",
        retryTimeout="5s",
        rocketmq__pullBatchSize=64,
        rocketmq__pullBatchSizeInBytes=9999,
        rocketmq__consumerPullTimeoutMillis=777,
    )

    assert options.topics == ("orders", "bills")
    assert (options.start.group, options.start.fallback) == ("shop", LATEST)
    assert (options.offsets_per_trigger_max, options.offsets_per_trigger_min) == (1000, 10)
    assert (options.trigger_delay_millis, options.bytes_per_trigger_max) == (30_000, 5000)
    assert (options.partitions_min, options.records_per_partition_max) == (4, 100)
    assert (options.fail_on_data_loss, options.group, options.pull_group) == (False, "spark", "spark")
    assert (options.tags, options.include_properties, options.values) == ("a || b", True, {"valueFormat": "string"})
    assert (options.connection.retry_millis, options.pull_count, options.pull_bytes) == (5000, 64, 9999)
    assert options.pull_millis == 777


def test_options_can_be_pickled() -> None:
    options = _read(accessKey="a", secretKey="b", tls="true", startingOffsets={"orders": {"b": {"0": 1}}})

    assert pickle.loads(pickle.dumps(options)) == options


def test_queues_can_be_assigned() -> None:
    options = _read(subscribe="", assign={"orders": {"broker-b": [1], "broker-a": [2, 0]}})

    expected = [("broker-a", 0), ("broker-a", 2), ("broker-b", 1)]
    assert options.assigned == tuple(MessageQueue(broker, queue, "orders") for broker, queue in expected)


def test_the_default_pull_group_is_that_of_the_tools() -> None:
    assert _read().pull_group == "TOOLS_CONSUMER"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nameServer": ""}, "option nameServer is missing: give host:port"),
        ({"nameServer": "localhost"}, "option nameServer: 'localhost' is not an address"),
        ({"subscribe": ""}, "give exactly one of the options subscribe, subscribePattern and assign"),
        ({"subscribePattern": "o.*"}, "options subscribe and subscribePattern contradict each other"),
        ({"subscribe": "", "subscribePattern": "("}, "option subscribePattern is not a regular expression"),
        ({"subscribe": "a b"}, "option subscribe: topic 'a b' is not a valid name"),
        ({"subscribe": ","}, "option subscribe names no topic"),
        ({"subscribe": "", "assign": {"orders": [1]}}, "option assign: .* give JSON such as"),
        ({"subscribe": "", "assign": {}}, "option assign names no queue"),
        ({"startingOffsets": "first"}, "option startingOffsets is 'first': give earliest, latest, or JSON"),
        ({"startingOffsets": {"orders": {"broker-a": {"0": -3}}}}, "option startingOffsets: an offset is below -2"),
        ({"startingOffsets": {"orders": {"broker-a": 3}}}, "option startingOffsets: 3 is not a JSON object"),
        ({"endingOffsets": "earliest"}, "option endingOffsets cannot be earliest"),
        ({"startingTimestamp": "now"}, "option startingTimestamp is 'now': give a whole number"),
        ({"startingTimestamp": "1", "startingOffsets": "latest"}, "startingTimestamp and startingOffsets contradict"),
        ({"startingOffsetsByTimestamp": {"orders": "x"}}, "option startingOffsetsByTimestamp: 'x' is not a time"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "has no meaning without startingTimestamp"),
        ({"startingTimestamp": "1", "startingGroup": "g"}, "startingGroup and startingTimestamp contradict"),
        ({"groupId": "a b"}, "option groupId: group 'a b' is not a valid name"),
        ({"tags": "a", "sql": "b = 1"}, "options tags and sql contradict each other"),
        ({"sql": "a ="}, "; give a condition such as "),
        ({"accessKey": "a"}, "option secretKey is missing"),
        ({"securityToken": "a"}, "option securityToken needs accessKey and secretKey"),
        ({"tls": "false", "tlsTrustCertPath": "x"}, "option tls is false, and tlsTrustCertPath"),
        ({"tlsCertPath": "x"}, "option tlsKeyPath is missing"),
        ({"rocketmq.namespace": "x"}, "write topics and groups as NAMESPACE%name"),
        ({"rocketmq.pullBatchsize2": "x"}, "is rocketmq.pullBatchSize meant"),
        ({"path": "x"}, "name topics with option subscribe"),
        ({"maxBytesPerTrigger": "1"}, "option maxBytesPerTrigger is for streams"),
    ],
)
def test_an_invalid_option_is_reported_with_the_remedy(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        _read(is_stream=False, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is for batches: leave it out, or use spark.read"),
        ({"endingTimestamp": "5"}, "option endingTimestamp is for batches"),
        ({"maxTriggerDelay": "5s"}, "option maxTriggerDelay has no meaning without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": 5, "maxOffsetsPerTrigger": 4}, "minOffsetsPerTrigger is 5, more than"),
    ],
)
def test_an_invalid_option_of_a_stream_is_reported_with_the_remedy(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        _read(is_stream=True, **options)
