"""Bits of sysFlag."""

from __future__ import annotations

import pytest

from kerolox.message import sysflag
from kerolox.message.sysflag import CompressionType


@pytest.mark.parametrize("kind", [sysflag.NOT_TRANSACTION, sysflag.PREPARED, sysflag.COMMIT, sysflag.ROLLBACK])
def test_setting_the_transaction_type_changes_no_other_bits(kind: int) -> None:
    assert sysflag.transaction_type(sysflag.with_transaction_type(0x7FF, kind)) == kind
    assert sysflag.with_transaction_type(0x7FF, kind) | 0xC == 0x7FF


def test_prepared_and_rollback_records_are_not_queued() -> None:
    queued = [kind for kind in (0, 4, 8, 0xC) if sysflag.is_queued(0x731 | kind)]

    assert queued == [sysflag.NOT_TRANSACTION, sysflag.COMMIT]


@pytest.mark.parametrize(
    ("sys_flag", "kind"),
    [
        (0x001, CompressionType.ZLIB),
        (0x101, CompressionType.LZ4),
        (0x201, CompressionType.ZSTD),
        (0x301, CompressionType.ZLIB),
        *((number << 8 | 1, None) for number in range(4, 8)),
    ],
)
def test_the_compression_type_has_three_bits(sys_flag: int, kind: CompressionType | None) -> None:
    assert sysflag.compression_type(sys_flag) == kind


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_decompressed_body_keeps_its_compression_type(kind: CompressionType) -> None:
    sys_flag = sysflag.with_compression(0x030, kind)

    assert sysflag.is_compressed(sys_flag)
    assert sysflag.compression_type(sys_flag) is kind
    assert sysflag.without_compression(sys_flag) == sys_flag - 1
