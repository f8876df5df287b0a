import pytest

from kerolox.client.producer.compression import compress_body
from kerolox.client.producer.settings import ProducerSettings
from kerolox.message import sysflag
from kerolox.message.compression import decompress
from kerolox.message.sysflag import CompressionType


@pytest.mark.parametrize("kind", list(CompressionType))
@pytest.mark.parametrize("size", [10, 5000, 200_000])
async def test_compressed_bodies_are_restored_by_their_sys_flag(kind: CompressionType, size: int) -> None:
    body = bytes(size)

    compressed, flag = await compress_body(body, ProducerSettings(compress_type=kind))

    assert sysflag.compression_type(flag) is kind
    assert decompress(compressed, flag, size) == body
