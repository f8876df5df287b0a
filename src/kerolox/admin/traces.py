"""Message traces: who sent and who consumed a message, as clients that trace have told it."""

from kerolox.admin.messages import Messages
from kerolox.admin.moments import Moment
from kerolox.client.trace import TRACE_TOPIC, Record, decode

_LONG_MAX = 2**63 - 1


class Traces:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    async def of_message(
        self, message_id: str, *, begin: Moment = 0, end: Moment = _LONG_MAX, trace_topic: str = TRACE_TOPIC
    ) -> list[Record]:
        """Returns what is told of a message by the id its producer gave it, in order of time; nothing if nobody traces.

        Traces come some seconds after what they tell of. ProtocolError if one cannot be read.
        """
        return await self._records(message_id, begin, end, trace_topic, is_id=True)

    async def by_key(
        self, key: str, *, begin: Moment = 0, end: Moment = _LONG_MAX, trace_topic: str = TRACE_TOPIC
    ) -> list[Record]:
        """Returns what is told of the messages that have a key."""
        return await self._records(key, begin, end, trace_topic, is_id=False)

    async def _records(self, key: str, begin: Moment, end: Moment, topic: str, *, is_id: bool) -> list[Record]:
        carriers = await self._messages.by_key(topic, key, begin=begin, end=end)
        records = [record for carrier in carriers for record in decode(carrier.body.decode("utf-8", "replace"))]
        # A message of the trace topic tells of several.
        found = [record for record in records if (record.message_id == key if is_id else key in _keys(record))]
        return sorted(found, key=lambda record: record.timestamp)


def _keys(record: Record) -> list[str]:
    return (getattr(record, "keys", None) or "").split(" ")
