"""The sink of `format("rocketmq")`: `df.write` and `writeStream` to topics."""

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

from kerolox.client.producer.settings import ProducerSettings
from kerolox.client.resource_names import check_group, check_topic
from kerolox.errors import KeroloxError
from kerolox.spark.cluster.connection import ConnectionOptions, parse_connection_options
from kerolox.spark.option_parser import OptionError, OptionParser
from kerolox.spark.write.columns import RowEncoder, WriteColumns
from kerolox.spark.write.writer import PartitionSender, SendOptions, WriteFailed

log = logging.getLogger(__name__)

GROUP: Final = "kerolox_spark"
_QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
_BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"
_BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
_COMPRESSION_OPTIONS: Final = ("rocketmq.compressMsgBodyOverHowmuch", "rocketmq.compressType", "rocketmq.compressLevel")
_NO_COMPRESSION: Final = "has no effect here: rows are sent in batches, which producers do not compress. Leave it out"

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    # Spark 4.0 has no Arrow writer for streams, and passes rows.
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)
_HAS_ARROW_STREAM_WRITER: Final = DataSourceStreamArrowWriter is not DataSourceStreamWriter


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """All options for writing."""

    connection: ConnectionOptions
    send: SendOptions
    topic: str | None = None
    # Scope of the unique keys: a job that is run again with the same id sends the same keys.
    write_id: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_stream: bool) -> "WriteOptions":
        """Parse the options; OptionError names the invalid one and the remedy."""
        parser = OptionParser(options)
        parser.refuse({"path": "is not supported: name the topic with option topic, and use save() without a path"})
        # Spark passes its own options, too.
        parser.text("checkpointLocation")
        parser.text("queryName")
        connection = replace(
            parse_connection_options(parser),
            unit_mode=parser.flag("rocketmq.unitMode", default=False),
            vip_channel_enabled=parser.flag("rocketmq.vipChannelEnabled", default=False),
        )
        topic = parser.text("topic")
        group = parser.text("producerGroup", "rocketmq.producerGroup") or GROUP
        settings = _settings(parser)
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
        batch_bytes = parser.count("batchBytes") or SendOptions.batch_bytes
        if batch_bytes > _BATCH_BYTES_MAX:
            raise OptionError(
                f"option batchBytes is {batch_bytes}: the limit of brokers is {_BATCH_BYTES_MAX}, give less"
            )
        write_id = parser.text("writeId")
        if is_stream and write_id is not None:
            raise OptionError("option writeId is for batch writes: a stream uses the id of its checkpoint")
        timeout = parser.millis("sendTimeout", "rocketmq.sendMsgTimeout")
        found = cls(
            connection=connection,
            topic=topic,
            write_id=write_id,
            send=SendOptions(
                group=group,
                batch_bytes=batch_bytes,
                in_flight_max=parser.count("batchesInFlight") or SendOptions.in_flight_max,
                send_seconds=SendOptions.send_seconds if timeout is None else timeout / 1000,
                retry_seconds=connection.retry_millis / 1000,
                settings=settings,
            ),
        )
        parser.end()
        return found


def _settings(parser: OptionParser) -> ProducerSettings:
    """Parse the rocketmq.* options of the producer; its other settings have options without that prefix."""
    defaults = ProducerSettings()
    retries = parser.count("rocketmq.retryTimesWhenSendFailed", at_least=0)
    parser.refuse(dict.fromkeys(_COMPRESSION_OPTIONS, _NO_COMPRESSION))
    parser.refuse({"rocketmq.maxMessageSize": "is not supported: the broker's limit applies"})
    return replace(
        defaults,
        retry_times_when_send_failed=defaults.retry_times_when_send_failed if retries is None else retries,
        retry_another_broker_when_not_store_ok=parser.flag("rocketmq.retryAnotherBrokerWhenNotStoreOK", default=False),
        create_topic_key=parser.text("rocketmq.createTopicKey") or defaults.create_topic_key,
        default_topic_queue_nums=parser.count("rocketmq.defaultTopicQueueNums") or defaults.default_topic_queue_nums,
        send_latency_fault_enable=parser.flag("rocketmq.sendLatencyFaultEnable", default=False),
    )


@dataclass
class PartitionCommit(WriterCommitMessage):
    """The number of messages that a partition has sent, by topic."""

    counts: dict[str, int]


class WritableSource:
    """Mixin that makes a DataSource writable."""

    options: MutableMapping[str, str]

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode('append')")
        options = WriteOptions.of(self.options, is_stream=False)
        write = TableWrite(options, schema)
        write.check_delivery_times()
        return BatchWriter(write, options.write_id)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = WriteOptions.of(self.options, is_stream=True)
        write = TableWrite(options, schema)
        write.check_delivery_times()
        return (StreamWriter if _HAS_ARROW_STREAM_WRITER else RowStreamWriter)(write)


class TableWrite:
    """Writes partitions of a table; pickled to the workers, and connects there."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._columns = WriteColumns.of(schema, options.topic)
        self._schema = schema

    def check_delivery_times(self) -> None:
        """DeliveryTimeUnsupported if there is a column of delivery times and a broker is too old for it.

        Checked before anything is sent. Tasks check again, since rows may have their own topics, and brokers may be
        down now.
        """
        options = self._options
        if options.topic is None or self._columns.delivery_time is None:
            return
        sender = PartitionSender(
            options.connection, replace(options.send, retry_seconds=0.0), self._columns.delivery_time
        )
        try:
            sender.check_delivery_times(options.topic)
        except WriteFailed as error:
            log.info("support of brokers for column %s is checked by the tasks: %s", self._columns.delivery_time, error)
        finally:
            sender.close()

    def partition(self, batches: Iterator[pa.RecordBatch], scope: str) -> PartitionCommit:
        """Return when brokers have stored all rows; RowError or WriteFailed name the one they have not."""
        options = self._options
        encoder = RowEncoder(self._columns, options.topic, scope)
        sender = PartitionSender(options.connection, options.send, self._columns.delivery_time)
        try:
            for batch in batches:
                sender.add(encoder.encode(batch))
            sender.finish()
        finally:
            sender.close()
        return PartitionCommit(dict(sender.counts))

    def as_batches(self, rows: Iterator[Any], size: int = 1024) -> Iterator[pa.RecordBatch]:
        """Convert rows to Arrow batches, for Spark versions that pass rows."""
        schema = to_arrow_schema(self._schema)
        pending: list[dict[str, Any]] = []
        for row in rows:
            pending.append(row.asDict())
            if len(pending) >= size:
                yield pa.RecordBatch.from_pylist(pending, schema=schema)
                pending = []
        if pending:
            yield pa.RecordBatch.from_pylist(pending, schema=schema)


class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch query. Within foreachBatch a repeated batch sends the same unique keys, like a stream."""

    def __init__(self, write: TableWrite, write_id: str | None) -> None:
        self._write = write
        self._is_named = write_id is not None
        self.write_id = write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionCommit:
        stream_scope = None if self._is_named else _stream_scope()
        return self._write.partition(iterator, stream_scope or f"{self.write_id}/{_context().partitionId()}")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream. A repeated batch sends the same unique keys again."""

    def __init__(self, write: TableWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionCommit:
        return self._write.partition(iterator, _required(_stream_scope()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _log_commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _log_abort(messages)


class RowStreamWriter(DataSourceStreamWriter):
    """The writer of a stream for Spark 4.0, which passes rows."""

    def __init__(self, write: TableWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[Any]) -> PartitionCommit:
        return self._write.partition(self._write.as_batches(iterator), _required(_stream_scope()))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _log_commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _log_abort(messages)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _stream_scope() -> str | None:
    """Return an id of query, batch and partition, which is the same when the batch is repeated.

    None if the task does not belong to a stream.
    """
    context = _context()
    query, batch = context.getLocalProperty(_QUERY_ID_PROPERTY), context.getLocalProperty(_BATCH_ID_PROPERTY)
    return None if query is None or batch is None else f"{query}/{batch}/{context.partitionId()}"


def _required(scope: str | None) -> str:
    if scope is None:
        raise RuntimeError("Spark has not set the query and batch id of this task, which unique keys are derived from")
    return scope


def _log_commit(messages: list[WriterCommitMessage | None]) -> None:
    total = sum(sum(message.counts.values()) for message in messages if isinstance(message, PartitionCommit))
    log.info("wrote %d messages from %d partitions", total, len(messages))


def _log_abort(messages: list[WriterCommitMessage | None]) -> None:
    """Log an abort. Stored messages stay; a retry sends them again with the same unique keys."""
    sent = sum(sum(message.counts.values()) for message in messages if isinstance(message, PartitionCommit))
    log.warning("a write was aborted; %d messages of complete partitions stay in their topics", sent)
