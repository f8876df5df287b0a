"""A message on its way out: checked, with its properties as text, for one broker or another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kerolox.client.messages import Message
from kerolox.client.names import NOT_FOR_PRODUCERS, RETRY_PREFIX, check_topic
from kerolox.client.options import Options
from kerolox.message import batch, names, properties
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds
from kerolox.message.record import PROPERTIES_SIZE_MAX
from kerolox.wire.headers.messages import SendBatchMessage, SendMessageV2, SendReplyMessageV2

# No property of a plain message can be so long that this would not hold in bytes, too.
_PLAIN_SIZE_MAX = PROPERTIES_SIZE_MAX // 4

_REQUESTS: dict[str, type[SendMessageV2]] = {
    "message": SendMessageV2,
    "batch": SendBatchMessage,
    "reply": SendReplyMessageV2,
}


class Outgoing(msgspec.Struct, eq=False):
    """All of a send request but the queue."""

    # As brokers know it.
    topic: str
    body: bytes
    properties: str
    # Those of a batch, parted by commas.
    message_id: str
    messages: Sequence[Message] = ()
    sys_flag: int = 0
    flag: int = 0
    body_size: int = 0
    born_millis: int = 0
    kind: str = "message"
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    @property
    def request(self) -> type[SendMessageV2]:
        return _REQUESTS[self.kind]


class BatchPart(NamedTuple):
    part: batch.Part
    message_id: str


class Outgoings:
    """Makes what goes out of what users give."""

    def __init__(self, options: Options, ids: UniqueIds, *, max_message_size: int) -> None:
        self._options = options
        self._ids = ids
        self._max_message_size = max_message_size
        # Topics that were found to be in order, as brokers know them.
        self._topics: dict[str, str] = {}

    def one(
        self, message: Message, more: Mapping[str, str] | None = None, *, message_id: str | None = None
    ) -> Outgoing:
        """Returns a message to be sent; MessageIllegal, naming what is wrong, if no broker would take it.

        `more` are properties of RocketMQ's own.
        """
        topic = self.topic(message.topic)
        self._check_body(message)
        message_id = message_id or message.message_id or self._ids.make()
        text = self._encoded(message, message_id, more).decode()
        return Outgoing(
            topic,
            message.body,
            text,
            message_id,
            (message,),
            flag=message.flag,
            body_size=len(message.body),
            born_millis=self._options.clock.millis(),
        )

    def batch(self, messages: Sequence[Message]) -> Outgoing:
        """Returns several messages of one topic as a batch for one queue."""
        if not messages:
            raise MessageIllegal("a batch of no messages")
        first = messages[0]
        for message in messages:
            if message.topic != first.topic or message.is_awaited != first.is_awaited:
                raise MessageIllegal("the messages of a batch have one topic, and are all awaited or none is")
        return self.batch_of(messages, [self.part(message) for message in messages])

    def part(self, message: Message) -> "BatchPart":
        """Returns what a message contributes to a batch."""
        topic = self.topic(message.topic)
        if topic.startswith(RETRY_PREFIX):
            raise MessageIllegal(f"a batch for {message.topic!r}, and retry topics take none")
        if is_delayed(message):
            raise MessageIllegal("a delayed message in a batch, and brokers take none")
        self._check_body(message)
        message_id = message.message_id or self._ids.make()
        return BatchPart(batch.Part(message.body, self._encoded(message, message_id), message.flag), message_id)

    def batch_of(self, messages: Sequence[Message], parts: "Sequence[BatchPart]") -> Outgoing:
        """Returns the batch of messages that were found to go together."""
        first = messages[0]
        body = batch.encode([part for part, _ in parts])
        if len(body) > self._max_message_size:
            raise MessageIllegal(
                f"a batch of {len(body)} bytes, at most {self._max_message_size} allowed (max_message_size)"
            )
        own = {} if first.is_awaited else {names.WAIT: "false"}
        if self._options.namespace:
            own[names.INSTANCE_ID] = self._options.namespace
        return Outgoing(
            self.topic(first.topic),
            body,
            properties.to_bytes(own).decode() if own else "",
            ",".join([message_id for _, message_id in parts]),
            messages,
            body_size=sum([len(part.body) for part, _ in parts]),
            born_millis=self._options.clock.millis(),
            kind="batch",
        )

    def raw(self, topic: str, body: bytes, given: Mapping[str, str], **fields: Any) -> Outgoing:
        """Returns a message of RocketMQ's own, such as one that goes back to its group; nothing is checked."""
        message_id = given.get(names.UNIQ_KEY) or self._ids.make()
        text = properties.to_bytes({**given, names.UNIQ_KEY: message_id}).decode()
        # As hooks see it.
        message = Message(self._options.unwrap(topic), body, tag=given.get(names.TAGS), message_id=message_id)
        return Outgoing(
            topic,
            body,
            text,
            message_id,
            (message,),
            body_size=len(body),
            born_millis=self._options.clock.millis(),
            **fields,
        )

    def topic(self, name: str) -> str:
        """Returns a topic as brokers know it; MessageIllegal if nothing may be sent to it."""
        known = self._topics.get(name)
        if known is not None:
            return known
        topic = self._options.wrap(name)
        check_topic(topic)
        if topic in NOT_FOR_PRODUCERS:
            raise MessageIllegal(f"topic {name!r} is the system's own, and takes no messages")
        if len(self._topics) < 10_000:
            self._topics[name] = topic
        return topic

    def _check_body(self, message: Message) -> None:
        body = message.body
        if not isinstance(body, bytes):
            raise MessageIllegal(f"a body of {type(body).__name__} for topic {message.topic!r}: it must be bytes")
        if not body:
            raise MessageIllegal(f"an empty body for topic {message.topic!r}, and brokers take none")
        if len(body) > self._max_message_size:
            raise MessageIllegal(
                f"a body of {len(body)} bytes for topic {message.topic!r}, "
                f"at most {self._max_message_size} allowed (max_message_size)"
            )

    def _encoded(self, message: Message, message_id: str, more: Mapping[str, str] | None = None) -> bytes:
        """Returns the properties as brokers keep them."""
        if self._is_plain(message) and more is None:
            text = f"UNIQ_KEY\x01{message_id}\x02"
            if message.tag:
                text += f"TAGS\x01{message.tag}\x02"
            if text.count("\x02") == text.count("\x01") == 1 + bool(message.tag) and len(text) < _PLAIN_SIZE_MAX:
                return text.encode()
        given: dict[str, str] = {}
        for name, value in message.properties.items():
            if name in names.RESERVED:
                raise MessageIllegal(
                    f"property {name!r} is RocketMQ's own: use a field of the message, or another name"
                )
            if not name.strip() or not isinstance(value, str) or not value.strip():
                raise MessageIllegal(f"property {name!r} = {value!r}: both must be text, and not blank")
            given[name] = value
        given.update(self._own(message))
        given.update(more or ())
        given[names.UNIQ_KEY] = message_id
        encoded = properties.to_bytes(given)
        if len(encoded) > PROPERTIES_SIZE_MAX:
            raise MessageIllegal(f"properties of {len(encoded)} bytes, at most {PROPERTIES_SIZE_MAX} allowed")
        return encoded

    def _is_plain(self, message: Message) -> bool:
        """Whether it has nothing but a tag, as most messages that come by the thousand."""
        return (
            not message.properties
            and not message.keys
            and message.is_awaited
            and not self._options.namespace
            and not is_delayed(message)
        )

    def _own(self, message: Message) -> Iterator[tuple[str, str]]:
        """Yields what a message's fields are called on the wire."""
        if isinstance(message.keys, str):
            raise MessageIllegal(f"keys {message.keys!r} are one text: give a list of them")
        if message.keys:
            if any(not key or " " in key for key in message.keys):
                raise MessageIllegal(f"keys {list(message.keys)!r}: a space parts them, so that none may hold one")
            yield names.KEYS, " ".join(message.keys)
        if message.tag:
            yield names.TAGS, message.tag
        if not message.is_awaited:
            yield names.WAIT, "false"
        if self._options.namespace:
            yield names.INSTANCE_ID, self._options.namespace
        delays = [
            *([(names.DELAY, str(message.delay_level))] if message.delay_level else ()),
            *([(names.TIMER_DELAY_MS, str(round(message.delay_seconds * 1000)))] if message.delay_seconds else ()),
            *(
                [(names.TIMER_DELIVER_MS, str(round(message.deliver_at.timestamp() * 1000)))]
                if message.deliver_at
                else ()
            ),
        ]
        if len(delays) > 1:
            raise MessageIllegal("of delay_level, delay_seconds and deliver_at, at most one is given")
        yield from delays


def is_delayed(message: Message) -> bool:
    return bool(message.delay_level or message.delay_seconds) or message.deliver_at is not None
