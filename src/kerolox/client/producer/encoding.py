"""Validates messages and encodes them into the parts of a send request that do not depend on the queue."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kerolox.client.messages import Message
from kerolox.client.options import Options
from kerolox.client.resource_names import NOT_FOR_PRODUCERS, RETRY_PREFIX, check_topic
from kerolox.message import properties, property_names
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds
from kerolox.message.records import batch
from kerolox.message.records.record import PROPERTIES_SIZE_MAX
from kerolox.wire.headers.messages import SendBatchMessage, SendMessageV2, SendReplyMessageV2

# In characters. A character takes at most four bytes in UTF-8, so shorter properties need no check in bytes.
_PLAIN_SIZE_MAX = PROPERTIES_SIZE_MAX // 4

_REQUESTS: dict[str, type[SendMessageV2]] = {
    "message": SendMessageV2,
    "batch": SendBatchMessage,
    "reply": SendReplyMessageV2,
}


class EncodedMessage(msgspec.Struct, eq=False):
    """A send request without its queue."""

    # With the namespace.
    topic: str
    body: bytes
    properties: str
    # The ids of a batch are separated by commas.
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


class MessageEncoder:
    """Encodes the messages of users; raises MessageIllegal, with the reason, for those that no broker accepts."""

    def __init__(self, options: Options, ids: UniqueIds, *, max_message_size: int) -> None:
        self._options = options
        self._ids = ids
        self._max_message_size = max_message_size
        # Validated topics → the same with the namespace.
        self._topics: dict[str, str] = {}

    def encode(
        self, message: Message, system_properties: Mapping[str, str] | None = None, *, message_id: str | None = None
    ) -> EncodedMessage:
        """Encode one message; `system_properties` are reserved ones, which users may not set."""
        topic = self.topic(message.topic)
        self._check_body(message)
        message_id = message_id or message.message_id or self._ids.make()
        return EncodedMessage(
            topic,
            message.body,
            self._properties(message, message_id, system_properties).decode(),
            message_id,
            (message,),
            flag=message.flag,
            body_size=len(message.body),
            born_millis=self._options.clock.millis(),
        )

    def encode_batch(self, messages: Sequence[Message]) -> EncodedMessage:
        """Encode several messages of one topic as a batch for one queue."""
        if not messages:
            raise MessageIllegal("a batch needs at least one message")
        first = messages[0]
        for message in messages:
            if message.topic != first.topic or message.is_awaited != first.is_awaited:
                raise MessageIllegal("all messages of a batch must have the same topic and the same is_awaited")
        return self.encode_parts(messages, [self.part(message) for message in messages])

    def part(self, message: Message) -> "BatchPart":
        """Encode one message of a batch."""
        topic = self.topic(message.topic)
        if topic.startswith(RETRY_PREFIX):
            raise MessageIllegal(f"retry topic {message.topic!r} does not accept batches")
        if is_delayed(message):
            raise MessageIllegal("a batch must not contain a delayed message")
        self._check_body(message)
        message_id = message.message_id or self._ids.make()
        return BatchPart(batch.Part(message.body, self._properties(message, message_id), message.flag), message_id)

    def encode_parts(self, messages: Sequence[Message], parts: "Sequence[BatchPart]") -> EncodedMessage:
        """Encode a batch whose messages have the same topic and `is_awaited`, and are encoded as `parts`."""
        first = messages[0]
        body = batch.encode([part for part, _ in parts])
        if len(body) > self._max_message_size:
            raise MessageIllegal(
                f"batch of {len(body)} bytes exceeds the limit of {self._max_message_size} (max_message_size)"
            )
        batch_properties = {} if first.is_awaited else {property_names.WAIT: "false"}
        if self._options.namespace:
            batch_properties[property_names.INSTANCE_ID] = self._options.namespace
        return EncodedMessage(
            self.topic(first.topic),
            body,
            properties.to_bytes(batch_properties).decode() if batch_properties else "",
            ",".join([message_id for _, message_id in parts]),
            messages,
            body_size=sum([len(part.body) for part, _ in parts]),
            born_millis=self._options.clock.millis(),
            kind="batch",
        )

    def encode_unchecked(self, topic: str, body: bytes, given: Mapping[str, str], **fields: Any) -> EncodedMessage:
        """Encode a message of the client itself, such as a reply, without validation. `topic` has its namespace."""
        message_id = given.get(property_names.UNIQ_KEY) or self._ids.make()
        text = properties.to_bytes({**given, property_names.UNIQ_KEY: message_id}).decode()
        # For hooks.
        message = Message(self._options.unwrap(topic), body, tag=given.get(property_names.TAGS), message_id=message_id)
        return EncodedMessage(
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
        """Return the topic with its namespace; raise MessageIllegal if it is invalid or a system topic."""
        known = self._topics.get(name)
        if known is not None:
            return known
        topic = self._options.wrap(name)
        check_topic(topic)
        if topic in NOT_FOR_PRODUCERS:
            raise MessageIllegal(f"topic {name!r} is a system topic that producers may not send to")
        if len(self._topics) < 10_000:
            self._topics[name] = topic
        return topic

    def _check_body(self, message: Message) -> None:
        body = message.body
        if not isinstance(body, bytes):
            raise MessageIllegal(f"body for topic {message.topic!r} must be bytes, not {type(body).__name__}")
        if not body:
            raise MessageIllegal(f"body for topic {message.topic!r} is empty, which brokers do not accept")
        if len(body) > self._max_message_size:
            raise MessageIllegal(
                f"body of {len(body)} bytes for topic {message.topic!r} "
                f"exceeds the limit of {self._max_message_size} (max_message_size)"
            )

    def _properties(self, message: Message, message_id: str, system: Mapping[str, str] | None = None) -> bytes:
        """Encode the properties, by a shortcut if there are none but a tag."""
        if self._is_plain(message) and system is None:
            text = f"UNIQ_KEY\x01{message_id}\x02"
            if message.tag:
                text += f"TAGS\x01{message.tag}\x02"
            # A tag that contains a separator takes the general path, which rejects it.
            if text.count("\x02") == text.count("\x01") == 1 + bool(message.tag) and len(text) < _PLAIN_SIZE_MAX:
                return text.encode()
        given: dict[str, str] = {}
        for name, value in message.properties.items():
            if name in property_names.RESERVED:
                raise MessageIllegal(
                    f"property {name!r} is reserved by RocketMQ: use a field of the message, or another name"
                )
            if not name.strip() or not isinstance(value, str) or not value.strip():
                raise MessageIllegal(f"property {name!r} = {value!r}: both must be non-blank strings")
            given[name] = value
        given.update(self._field_properties(message))
        given.update(system or ())
        given[property_names.UNIQ_KEY] = message_id
        encoded = properties.to_bytes(given)
        if len(encoded) > PROPERTIES_SIZE_MAX:
            raise MessageIllegal(f"properties of {len(encoded)} bytes exceed the limit of {PROPERTIES_SIZE_MAX}")
        return encoded

    def _is_plain(self, message: Message) -> bool:
        """Whether the message has no properties but its id and perhaps a tag."""
        return (
            not message.properties
            and not message.keys
            and message.is_awaited
            and not self._options.namespace
            and not is_delayed(message)
        )

    def _field_properties(self, message: Message) -> Iterator[tuple[str, str]]:
        """Yield the properties that the fields of a message become on the wire."""
        if isinstance(message.keys, str):
            raise MessageIllegal(f"keys must be a list of strings, not the string {message.keys!r}")
        if message.keys:
            if any(not key or " " in key for key in message.keys):
                raise MessageIllegal(
                    f"keys {list(message.keys)!r}: a key must not be empty or contain a space, which separates keys"
                )
            yield property_names.KEYS, " ".join(message.keys)
        if message.tag:
            yield property_names.TAGS, message.tag
        if not message.is_awaited:
            yield property_names.WAIT, "false"
        if self._options.namespace:
            yield property_names.INSTANCE_ID, self._options.namespace
        delays = [
            *([(property_names.DELAY, str(message.delay_level))] if message.delay_level else ()),
            *(
                [(property_names.TIMER_DELAY_MS, str(round(message.delay_seconds * 1000)))]
                if message.delay_seconds
                else ()
            ),
            *(
                [(property_names.TIMER_DELIVER_MS, str(round(message.deliver_at.timestamp() * 1000)))]
                if message.deliver_at
                else ()
            ),
        ]
        if len(delays) > 1:
            raise MessageIllegal("give at most one of delay_level, delay_seconds and deliver_at")
        yield from delays


def is_delayed(message: Message) -> bool:
    return bool(message.delay_level or message.delay_seconds) or message.deliver_at is not None
