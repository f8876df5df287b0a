"""Responses to batches equal those that the header type encodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.broker.send.batch_responses import offset_ids, write
from kerolox.message import hosts
from kerolox.message.ids import offset_id
from kerolox.wire.command import BINARY, JSON, encode_answer
from kerolox.wire.headers.messages import Sent


@pytest.mark.parametrize("serialization", [JSON, BINARY])
@given(
    count=st.integers(1, 40),
    queue_id=st.integers(0, 2**31 - 1),
    queue_offset=st.integers(0, 2**63 - 1),
    unique_key=st.sampled_from([b"", b"7F0000010001", b"A" * 63]),
    region=st.sampled_from(["DefaultRegion", '50% "é"', "%b"]),
    is_traced=st.booleans(),
)
def test_an_answer_is_that_of_the_header(
    serialization: int,
    count: int,
    queue_id: int,
    queue_offset: int,
    unique_key: bytes,
    region: str,
    is_traced: bool,
) -> None:
    ids = ",".join(["0A000001"] * count)

    frame = write(serialization, 77, ids, (queue_id, queue_offset), unique_key, region, is_traced)

    sent = Sent(
        msg_id=ids,
        queue_id=queue_id,
        queue_offset=queue_offset,
        transaction_id=unique_key.decode() or None,
        msg_region=region,
        trace_on="true" if is_traced else "false",
    )
    assert frame == encode_answer(serialization, 77, 0, None, sent.ext(), b"")


@pytest.mark.parametrize("address", ["10.0.0.1:10911", "[::1]:10911"])
@pytest.mark.parametrize("starts", [(0,), (0, 100, 250), range(0, 3000, 100)])
def test_ids_are_parted_by_commas(address: str, starts: tuple[int, ...] | range) -> None:
    host = hosts.parse(address)

    expected = ",".join(offset_id(host, 2**40 + start) for start in starts)

    assert offset_ids(host, 2**40, starts) == expected
