"""Removal of messages that were delivered more than once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop_repeats(frame: "DataFrame", within: str = "1 hour") -> "DataFrame":
    """Return each message once, by the unique key that its producer assigned (`msgId`).

    In a stream, repeats are found if they were stored within this time of each other, since Spark keeps the keys only
    that long; the frame must have the columns msgId and storeTimestamp, and no watermark of its own.
    """
    if not frame.isStreaming:
        return frame.dropDuplicates(["msgId"])
    return frame.withWatermark("storeTimestamp", within).dropDuplicatesWithinWatermark(["msgId"])
