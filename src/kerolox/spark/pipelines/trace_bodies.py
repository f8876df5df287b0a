"""Decodes bodies of trace messages to rows, on Spark's workers."""

from collections.abc import Iterator
from typing import Any, Final

from kerolox.client.tracing.trace_format import EndTransaction, Pub, Record, SubAfter, SubBefore, decode
from kerolox.errors import ProtocolError

SCHEMA: Final = (
    "kind STRING, timestamp BIGINT, topic STRING, group STRING, msgId STRING, requestId STRING, isSuccess BOOLEAN, "
    "costMillis BIGINT, messageType INT"
)


def records(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield a row for each trace record in the column body; other bodies are skipped.

    A record of a batch send becomes a row for each message, with the time that the whole batch took.
    """
    import pyarrow as pa

    schema = pa.schema(
        [
            ("kind", pa.string()),
            ("timestamp", pa.int64()),
            ("topic", pa.string()),
            ("group", pa.string()),
            ("msgId", pa.string()),
            ("requestId", pa.string()),
            ("isSuccess", pa.bool_()),
            ("costMillis", pa.int64()),
            ("messageType", pa.int32()),
        ]
    )
    for batch in batches:
        rows = [row for body in batch.column("body").to_pylist() for row in rows_of(body)]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def rows_of(body: bytes) -> list[dict[str, object]]:
    try:
        found = decode(body.decode())
    except (ProtocolError, UnicodeDecodeError):
        return []
    return [_row(record, message_id) for record in found for message_id in _ids(record)]


def _ids(record: Record) -> list[str | None]:
    if isinstance(record, Pub) and record.message_id:
        return [*record.message_id.split(",")]
    return [record.message_id]


def _row(record: Record, message_id: str | None) -> dict[str, object]:
    row: dict[str, object] = {
        "kind": type(record).__name__,
        "timestamp": record.timestamp,
        "group": record.group,
        "msgId": message_id,
        "topic": None if isinstance(record, SubBefore | SubAfter) else record.topic,
    }
    if isinstance(record, SubBefore | SubAfter):
        row["requestId"] = record.request_id
    if isinstance(record, Pub | SubAfter):
        row |= {"isSuccess": record.is_success, "costMillis": record.cost_millis}
    if isinstance(record, Pub):
        row["messageType"] = record.message_type
    if isinstance(record, EndTransaction):
        row["isSuccess"] = record.transaction_state == "COMMIT_MESSAGE"
    return row
