"""Compresses message bodies before they are sent."""

from kerolox.client.producer.settings import ProducerSettings
from kerolox.message import sysflag
from kerolox.message.compression import compress
from kerolox.runtime.threads import in_thread

# Compressing a smaller body takes less time than the round trip to a thread.
_IN_THREAD_SIZE_MIN = 32 * 1024


async def compress_body(body: bytes, settings: ProducerSettings) -> tuple[bytes, int]:
    """Return the compressed body and its sysFlag; like Java, even if it is longer than the original."""
    kind, level = settings.compress_type, settings.compress_level
    if len(body) < _IN_THREAD_SIZE_MIN:
        compressed = compress(body, kind, level)
    else:
        compressed = await in_thread(compress, body, kind, level)
    return compressed, sysflag.with_compression(0, kind)
