"""Formats a message as Java's tools do, and as JSON."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kerolox.cli.admin import java_format
from kerolox.cli.admin.java_times import millis_text
from kerolox.cli.private_files import private_directory, write_file
from kerolox.client.messages import Received
from kerolox.message.records.layout import RECORD_SIZE_MIN
from kerolox.runtime.text.terminal import escape_line
from kerolox.runtime.user_dir import home

# In bytes, below the 255 of file systems, so that suffixes and temporary names fit.
_NAME_SIZE_MAX = 200


def details(message: Received, body_path: Path, *, has_offset_id: bool, extra: Mapping[str, str]) -> str:
    """Return a line for each field of a message; `extra` are properties that a pull adds."""
    record = message.record
    values = (
        *([("OffsetID", message.offset_id)] if has_offset_id else []),
        ("Topic", record.topic),
        ("Tags", f"[{java_format.text(message.tag)}]"),
        ("Keys", f"[{java_format.text(record.get('KEYS'))}]"),
        ("Queue ID", record.queue_id),
        ("Queue Offset", record.queue_offset),
        ("CommitLog Offset", record.physical_offset),
        ("Reconsume Times", record.reconsume_times),
        ("Born Timestamp", millis_text(record.born_timestamp)),
        ("Store Timestamp", millis_text(record.store_timestamp)),
        ("Born Host", message.born_host),
        ("Store Host", message.store_host),
        ("System Flag", record.sys_flag),
        ("Properties", java_format.text(java_format.in_hash_order({**record.parsed, **extra}))),
        ("Message Body Path", body_path),
    )
    return "".join(f"{name + ':':<20} {escape_line(str(value))}\n" for name, value in values)


def write_body(message: Received, number: int = 0) -> Path:
    """Write the body to a file named after the message, and return its path.

    The folder is in the user's home: Java's is /tmp/rocketmq/msgbodys, where other users could have planted links.
    """
    path = private_directory(home() / "msgbodys") / (file_name(message.message_id) + (f"_{number}" if number else ""))
    write_file(path, message.body)
    return path


def file_name(text: str) -> str:
    """Return a safe file name for a name that a client chose: without a path, and not too long."""
    name = re.sub(r"[/\x00]", "_", text).encode(errors="replace")[:_NAME_SIZE_MAX].decode(errors="ignore")
    return name if name.strip(".") else "_"


def line(message: Received, min_offset: int, max_offset: int, body: str) -> str:
    """Return MessageExt.toString of a pulled message, with its id and body."""
    record = message.record
    ends = {"MIN_OFFSET": str(min_offset), "MAX_OFFSET": str(max_offset)}
    properties = java_format.text(java_format.in_hash_order({**record.parsed, **ends}))
    signed = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    inner = (
        f"Message{{topic='{record.topic}', flag={record.flag}, properties={properties}, body=[{signed}], "
        f"transactionId='{java_format.text(record.get('UNIQ_KEY') if record.get('TRAN_MSG') == 'true' else None)}'}}"
    )
    values = (
        ("brokerName", message.queue.broker_name),
        ("queueId", record.queue_id),
        ("storeSize", _store_size(message)),
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
    head = escape_line(f"MSGID: {message.message_id} {java_format.to_string('MessageExt', values)}")
    return f"{head} BODY: {body}\n"


def _store_size(message: Received) -> int:
    record = message.record
    hosts = len(record.born_host) + len(record.store_host) - 16
    # The length of a topic takes two bytes if the topic is longer than 127 bytes.
    topic = len(record.topic.encode())
    return RECORD_SIZE_MIN + hosts + len(record.body) + topic + (1 if topic > 127 else 0) + len(record.properties)


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
