"""Encodes send requests by filling in templates: between sends to one topic of one broker, only a few fields differ."""

from collections.abc import Callable

import msgspec

from kerolox.client.producer.encoding import EncodedMessage
from kerolox.client.session.requests import LANGUAGE
from kerolox.errors import ProtocolError
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.command import JSON, encode
from kerolox.wire.frames import FRAME_SIZE_MAX, PREFIX
from kerolox.wire.headers.messages import SendMessageV2

_encode_text = msgspec.json.Encoder().encode
_pack_prefix = PREFIX.pack

# Placeholders for the fields that are filled in later. They must not occur elsewhere in a header.
_OPAQUE, _QUEUE_ID, _SYS_FLAG, _BORN, _FLAG, _RECONSUMED = range(1_987_654_321, 1_987_654_327)
_PROPERTIES = "properties that are filled in later"
# Bounds the memory of a producer that sends to very many topics.
_TEMPLATES_MAX = 10_000


class SendFrames:
    """Builds the same frames as the typed header would, ten times as fast."""

    def __init__(self, request: Callable[[EncodedMessage, MessageQueue], SendMessageV2]) -> None:
        self._request = request
        self._templates: dict[tuple[str, str, str], bytes] = {}

    def frame_builder(self, out: EncodedMessage, queue: MessageQueue) -> Callable[[int], bytes]:
        """Return a function that builds the frame from its opaque."""
        template = self._templates.get((out.topic, queue.broker_name, out.kind))
        if template is None or out.max_reconsume_times is not None:
            template = self._template(out, queue)

        def frame(opaque: int) -> bytes:
            header = template % (
                queue.queue_id,
                out.sys_flag,
                out.born_millis,
                out.flag,
                _encode_text(out.properties),
                out.reconsume_times,
                opaque,
            )
            size = 4 + len(header) + len(out.body)
            if size + 4 > FRAME_SIZE_MAX:
                raise ProtocolError(f"frame of {size + 4} bytes exceeds the limit of {FRAME_SIZE_MAX}")
            return b"".join((_pack_prefix(size, len(header)), header, out.body))

        return frame

    def _template(self, out: EncodedMessage, queue: MessageQueue) -> bytes:
        placeholders = msgspec.structs.replace(
            out,
            properties=_PROPERTIES,
            sys_flag=_SYS_FLAG,
            born_millis=_BORN,
            flag=_FLAG,
            reconsume_times=_RECONSUMED,
        )
        request = self._request(placeholders, MessageQueue(queue.broker_name, _QUEUE_ID, queue.topic))
        header = encode(JSON, code=request.code, opaque=_OPAQUE, language=LANGUAGE, ext=request.ext())[PREFIX.size :]
        template = header.replace(b"%", b"%%").replace(b'"%b"' % _PROPERTIES.encode(), b"%b")
        for number in (_OPAQUE, _QUEUE_ID, _SYS_FLAG, _BORN, _FLAG, _RECONSUMED):
            template = template.replace(b"%d" % number, b"%d")
        if out.max_reconsume_times is None and len(self._templates) < _TEMPLATES_MAX:
            self._templates[out.topic, queue.broker_name, out.kind] = template
        return template
