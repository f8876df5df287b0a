"""Bodies made smaller before they are sent."""

from kerolox.client.producer.settings import ProducerSettings
from kerolox.message import sysflag
from kerolox.message.compression import compress
from kerolox.runtime.blocking import in_thread

# Below this, compressing takes less time than handing it to a thread and back.
_IN_THREAD_SIZE_MIN = 32 * 1024


async def compressed(body: bytes, settings: ProducerSettings) -> tuple[bytes, int]:
    """Returns the body to be sent, and its sysFlag; as in Java, the compressed one even where it is longer."""
    kind, level = settings.compress_type, settings.compress_level
    if len(body) < _IN_THREAD_SIZE_MIN:
        smaller = compress(body, kind, level)
    else:
        smaller = await in_thread(compress, body, kind, level)
    return smaller, sysflag.with_compression(0, kind)
