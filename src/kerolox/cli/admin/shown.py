"""One message, as Java's tools show it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kerolox.cli.admin import java
from kerolox.cli.admin.times import millis_text
from kerolox.client.messages import Received

# Where Java's tools put bodies, too.
BODY_DIRECTORY = Path("/tmp/rocketmq/msgbodys")  # noqa: S108

# Bytes; file systems take 255 of them.
_NAME_SIZE_MAX = 200


def details(message: Received, body_path: Path, *, has_place: bool, extra: Mapping[str, str]) -> str:
    """Returns a line for each thing that is known of a message; `extra` are properties that pulling adds."""
    record = message.record
    values = (
        *([("OffsetID", message.offset_id)] if has_place else []),
        ("Topic", record.topic),
        ("Tags", f"[{java.text(message.tag)}]"),
        ("Keys", f"[{java.text(record.get('KEYS'))}]"),
        ("Queue ID", record.queue_id),
        ("Queue Offset", record.queue_offset),
        ("CommitLog Offset", record.physical_offset),
        ("Reconsume Times", record.reconsume_times),
        ("Born Timestamp", millis_text(record.born_timestamp)),
        ("Store Timestamp", millis_text(record.store_timestamp)),
        ("Born Host", message.born_host),
        ("Store Host", message.store_host),
        ("System Flag", record.sys_flag),
        ("Properties", java.text(java.in_hash_order({**record.parsed, **extra}))),
        ("Message Body Path", body_path),
    )
    return "".join(f"{name + ':':<20} {value}\n" for name, value in values)


def write_body(message: Received, number: int = 0) -> Path:
    """Puts the body into a file that is named after the message, and returns its path."""
    BODY_DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = BODY_DIRECTORY / (file_name(message.message_id) + (f"_{number}" if number else ""))
    path.write_bytes(message.body)
    return path


def file_name(given: str) -> str:
    """Returns what a file may be called after a name that somebody else has chosen: it leads nowhere else."""
    name = re.sub(r"[/\x00]", "_", given).encode(errors="replace")[:_NAME_SIZE_MAX].decode(errors="ignore")
    return name if name.strip(".") else "_"


def line(message: Received, min_offset: int, max_offset: int, body: str) -> str:
    """Returns a message in a line, as one that was pulled."""
    record = message.record
    ends = {"MIN_OFFSET": str(min_offset), "MAX_OFFSET": str(max_offset)}
    properties = java.text(java.in_hash_order({**record.parsed, **ends}))
    signed = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    inner = (
        f"Message{{topic='{record.topic}', flag={record.flag}, properties={properties}, body=[{signed}], "
        f"transactionId='{java.text(record.get('UNIQ_KEY') if record.get('TRAN_MSG') == 'true' else None)}'}}"
    )
    values = (
        ("brokerName", message.queue.broker_name),
        ("queueId", record.queue_id),
        ("storeSize", _size(message)),
        ("queueOffset", record.queue_offset),
        ("sysFlag", record.sys_flag),
        ("bornTimestamp", record.born_timestamp),
        ("bornHost", f"/{message.born_host}"),
        ("storeTimestamp", record.store_timestamp),
        ("storeHost", f"/{message.store_host}"),
        ("msgId", message.offset_id),
        ("commitLogOffset", record.physical_offset),
        ("bodyCRC", record.body_crc),
        ("reconsumeTimes", record.reconsume_times),
        ("preparedTransactionOffset", record.prepared_transaction_offset),
        ("toString()", inner),
    )
    return f"MSGID: {message.message_id} {java.members('MessageExt', values)} BODY: {body}\n"


# Of a record with addresses of IPv4: all that is not body, topic and properties.
_FIXED_SIZE = 91


def _size(message: Received) -> int:
    record = message.record
    hosts = len(record.born_host) + len(record.store_host) - 16
    # A topic of more than 127 bytes has two for its length.
    topic = len(record.topic.encode())
    return _FIXED_SIZE + hosts + len(record.body) + topic + (1 if topic > 127 else 0) + len(record.properties)


def json_value(message: Received) -> dict[str, Any]:
    record = message.record
    return {
        "msgId": message.message_id,
        "offsetMsgId": message.offset_id,
        "topic": record.topic,
        "brokerName": message.queue.broker_name,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "commitLogOffset": record.physical_offset,
        "bornTimestamp": record.born_timestamp,
        "bornHost": message.born_host,
        "storeTimestamp": record.store_timestamp,
        "storeHost": message.store_host,
        "reconsumeTimes": record.reconsume_times,
        "sysFlag": record.sys_flag,
        "properties": dict(record.parsed),
        "body": message.body.decode("utf-8", "backslashreplace"),
    }
