"""Messages that came twice, and are to count once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop_repeats(frame: "DataFrame", within: str = "1 hour") -> "DataFrame":
    """Returns a table of messages with each once, by the unique key that its producer gave it (`msgId`).

    Of a stream, repeats are found if they were stored within such a time of each other, for which Spark keeps the keys;
    the frame must have the columns msgId and storeTimestamp, and no watermark of its own.
    """
    if not frame.isStreaming:
        return frame.dropDuplicates(["msgId"])
    return frame.withWatermark("storeTimestamp", within).dropDuplicatesWithinWatermark(["msgId"])
