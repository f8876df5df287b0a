"""Writes tables to topics: `df.write.format("rocketmq")`, and `writeStream`."""

import logging
import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kerolox.client.names import check_group, check_topic
from kerolox.client.producer.settings import ProducerSettings
from kerolox.errors import KeroloxError
from kerolox.spark.connecting import Connect, connect_of
from kerolox.spark.given import Given, OptionError
from kerolox.spark.write_columns import Rows, WriteColumns
from kerolox.spark.writing import Deliveries, Sends, WriteFailed

log = logging.getLogger(__name__)

GROUP: Final = "kerolox_spark"
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
_COMPRESSION: Final = ("rocketmq.compressMsgBodyOverHowmuch", "rocketmq.compressType", "rocketmq.compressLevel")
_UNCOMPRESSED: Final = "has no meaning here: rows travel in batches, which no producer compresses. Leave it out"

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    # 4.0 has none, and gives rows.
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)
_GIVES_ARROW: Final = DataSourceStreamArrowWriter is not DataSourceStreamWriter


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """All that may be said about writing."""

    connect: Connect
    sends: Sends
    topic: str | None = None
    # Makes unique keys the same when a job is run again.
    write_id: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_stream: bool) -> "WriteOptions":
        """OptionError names the option that is wrong, and the remedy."""
        given = Given(options)
        given.refuse({"path": "is not known here: name the topic with option topic, and use save() without a path"})
        # Spark hands over what it needs itself.
        given.text("checkpointLocation")
        given.text("queryName")
        connect = replace(
            connect_of(given),
            unit_mode=given.flag("rocketmq.unitMode", default=False),
            vip_channel_enabled=given.flag("rocketmq.vipChannelEnabled", default=False),
        )
        topic = given.text("topic")
        group = given.text("producerGroup", "rocketmq.producerGroup") or GROUP
        settings = _settings(given)
        for option, check, name in (
            ("producerGroup", check_group, group),
            ("topic", check_topic, topic),
            ("rocketmq.createTopicKey", check_topic, settings.create_topic_key),
        ):
            try:
                if name is not None:
                    check(name)
            except KeroloxError as error:
                raise OptionError(f"option {option}: {error}") from error
        batch_bytes = given.count("batchBytes") or Sends.batch_bytes
        if batch_bytes > _BATCH_BYTES_MAX:
            raise OptionError(f"option batchBytes is {batch_bytes}: brokers take at most {_BATCH_BYTES_MAX}, give less")
        write_id = given.text("writeId")
        if is_stream and write_id is not None:
            raise OptionError("option writeId is for batches: a stream has the id of its checkpoint")
        timeout = given.millis("sendTimeout", "rocketmq.sendMsgTimeout")
        found = cls(
            connect=connect,
            topic=topic,
            write_id=write_id,
            sends=Sends(
                group=group,
                batch_bytes=batch_bytes,
                in_flight_max=given.count("batchesInFlight") or Sends.in_flight_max,
                send_seconds=Sends.send_seconds if timeout is None else timeout / 1000,
                retry_seconds=connect.retry_millis / 1000,
                settings=settings,
            ),
        )
        given.end()
        return found


def _settings(given: Given) -> ProducerSettings:
    """Returns what is RocketMQ's own about sending; the rest of a producer's settings have options of Spark's."""
    own = ProducerSettings()
    retries = given.count("rocketmq.retryTimesWhenSendFailed", at_least=0)
    given.refuse(dict.fromkeys(_COMPRESSION, _UNCOMPRESSED))
    given.refuse({"rocketmq.maxMessageSize": "is not known here: brokers say how large a message may be"})
    return replace(
        own,
        retry_times_when_send_failed=own.retry_times_when_send_failed if retries is None else retries,
        retry_another_broker_when_not_store_ok=given.flag("rocketmq.retryAnotherBrokerWhenNotStoreOK", default=False),
        create_topic_key=given.text("rocketmq.createTopicKey") or own.create_topic_key,
        default_topic_queue_nums=given.count("rocketmq.defaultTopicQueueNums") or own.default_topic_queue_nums,
        send_latency_fault_enable=given.flag("rocketmq.sendLatencyFaultEnable", default=False),
    )


@dataclass
class Written(WriterCommitMessage):
    """What a partition has sent, by topic."""

    counts: dict[str, int]


class Writes:
    """What makes a DataSource one that can be written to."""

    options: MutableMapping[str, str]

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode('append')")
        options = WriteOptions.of(self.options, is_stream=False)
        write = Write(options, schema)
        write.check_times()
        return BatchWriter(write, options.write_id)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = WriteOptions.of(self.options, is_stream=True)
        write = Write(options, schema)
        write.check_times()
        return (StreamWriter if _GIVES_ARROW else RowStreamWriter)(write)


class Write:
    """Writes partitions; it travels to the workers, and connects there."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = WriteColumns.of(schema, options.topic)
        self._schema = schema

    def check_times(self) -> None:
        """TimeIgnored if it can be told now that brokers do not heed a column of times, before anything is sent.

        Tasks look again, since rows may name their topics, and brokers may be away now that are there then.
        """
        options = self._options
        if options.topic is None or self._columns.time is None:
            return
        deliveries = Deliveries(options.connect, replace(options.sends, retry_seconds=0.0), self._columns.time)
        try:
            deliveries.check_times(options.topic)
        except WriteFailed as error:
            log.info("whether brokers heed column %s is left to the tasks: %s", self._columns.time, error)
        finally:
            deliveries.close()

    def partition(self, batches: Iterator[pa.RecordBatch], scope: str) -> Written:
        """Returns when brokers have all rows; raises what names the one they have not."""
        options = self._options
        rows = Rows(self._columns, options.topic, scope)
        deliveries = Deliveries(options.connect, options.sends, self._columns.time)
        try:
            for batch in batches:
                deliveries.add(rows.of(batch))
            deliveries.finish()
        finally:
            deliveries.close()
        return Written(dict(deliveries.counts))

    def as_batches(self, rows: Iterator[Any], size: int = 1024) -> Iterator[pa.RecordBatch]:
        """Yields rows as batches, where Spark gives rows."""
        schema = to_arrow_schema(self._schema)
        held: list[dict[str, Any]] = []
        for row in rows:
            held.append(row.asDict())
            if len(held) >= size:
                yield pa.RecordBatch.from_pylist(held, schema=schema)
                held = []
        if held:
            yield pa.RecordBatch.from_pylist(held, schema=schema)


class BatchWriter(DataSourceArrowWriter):
    """Within foreachBatch a batch that is repeated sends the same unique keys again, as a stream does."""

    def __init__(self, write: Write, write_id: str | None) -> None:
        self._write = write
        self._is_named = write_id is not None
        self.write_id = write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        of_stream = None if self._is_named else _stream_scope()
        return self._write.partition(iterator, of_stream or f"{self.write_id}/{_context().partitionId()}")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _tell(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _tell_aborted(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """A batch that is repeated sends the same unique keys again."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._write.partition(iterator, _needed(_stream_scope()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _tell(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _tell_aborted(messages)


class RowStreamWriter(DataSourceStreamWriter):
    """The same for Spark 4.0."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, iterator: Iterator[Any]) -> Written:
        return self._write.partition(self._write.as_batches(iterator), _needed(_stream_scope()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _tell(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _tell_aborted(messages)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _stream_scope() -> str | None:
    """Returns what tells the rows of a partition from all others, and is the same when the batch is repeated.

    None if this is no batch of a stream.
    """
    context = _context()
    query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
    return None if query is None or batch is None else f"{query}/{batch}/{context.partitionId()}"


def _needed(scope: str | None) -> str:
    if scope is None:
        raise RuntimeError("Spark does not say of which query and batch this is, by which repeats are known")
    return scope


def _tell(messages: list[WriterCommitMessage | None]) -> None:
    total = sum(sum(message.counts.values()) for message in messages if isinstance(message, Written))
    log.info("wrote %d messages from %d partitions", total, len(messages))


def _tell_aborted(messages: list[WriterCommitMessage | None]) -> None:
    """Brokers keep what they have; it has the same unique keys when it comes again."""
    sent = sum(sum(message.counts.values()) for message in messages if isinstance(message, Written))
    log.warning("a write was given up after %d messages of whole partitions, which are in their topics", sent)
