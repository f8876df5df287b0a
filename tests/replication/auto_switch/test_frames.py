"""Frames of the HA stream in controller mode, byte for byte."""

import pytest

from kerolox.errors import ProtocolError
from kerolox.replication.auto_switch.epochs import EpochEntry, Epochs
from kerolox.replication.auto_switch.frames import (
    CHUNK_SIZE_MAX,
    Chunk,
    FromMaster,
    FromReplica,
    Handshake,
    MasterFrames,
    MasterLog,
    ReplicaFrames,
    Report,
)

EPOCHS = Epochs([EpochEntry(1, 0), EpochEntry(3, 0x1234)])
FROM_REPLICA: list[tuple[FromReplica, str]] = [
    (Handshake(2), "00000001 0000 0000 0000000000000002"),
    (Handshake(5, is_from_last_file=True, is_learner=True), "00000001 0001 0001 0000000000000005"),
    (Report(0x0102030405), "00000002 0000000102030405"),
    (Report(-1), "00000002 ffffffffffffffff"),
]
FROM_MASTER: list[tuple[FromMaster, str]] = [
    (
        MasterLog(0x2000, EPOCHS),
        "00000001 00000018 0000000000002000 00000003 00000001 0000000000000000 00000003 0000000000001234",
    ),
    (MasterLog(0, Epochs()), "00000001 00000000 0000000000000000 ffffffff"),
    (
        Chunk(0x1500, EpochEntry(3, 0x1234), 0x1400, b"log"),
        "00000002 00000003 0000000000001500 00000003 0000000000001234 0000000000001400 6c6f67",
    ),
    (
        Chunk(-1, EpochEntry(3, 0x1234), 0),
        "00000002 00000000 ffffffffffffffff 00000003 0000000000001234 0000000000000000",
    ),
]


def test_frames_have_the_bytes_of_rocketmq() -> None:
    for frame, text in [*FROM_REPLICA, *FROM_MASTER]:
        assert frame.encode() == bytes.fromhex(text), frame


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_frames_are_decoded_however_the_stream_is_cut(step: int) -> None:
    for decoder, cases in ((ReplicaFrames(), FROM_REPLICA), (MasterFrames(), FROM_MASTER)):
        stream = b"".join(bytes.fromhex(text) for _, text in cases)
        found = [frame for at in range(0, len(stream), step) for frame in decoder.feed(stream[at : at + step])]
        assert found == [frame for frame, _ in cases]


@pytest.mark.parametrize("kind", [0, 3, 4, -1])
def test_other_frames_are_refused(kind: int) -> None:
    data = kind.to_bytes(4, signed=True) + bytes(40)
    with pytest.raises(ProtocolError, match=f"kind {kind},"):
        ReplicaFrames().feed(data)
    with pytest.raises(ProtocolError, match=f"kind {kind},"):
        MasterFrames().feed(data)


@pytest.mark.parametrize(("kind", "size"), [(1, 12 * 1000 + 12), (1, -12), (2, CHUNK_SIZE_MAX + 1), (2, -1)], ids=str)
def test_a_frame_that_claims_too_many_bytes_is_refused_before_it_is_read(kind: int, size: int) -> None:
    with pytest.raises(ProtocolError, match=f"with {size} bytes"):
        MasterFrames().feed(kind.to_bytes(4) + size.to_bytes(4, signed=True) + bytes(12))


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ("00000001 0000000000000000 00", "not a multiple"),
        ("00000003 0000000000000000 00000001 0000000000000010", "out of order"),
    ],
)
def test_malformed_epochs_are_refused(entries: str, reason: str) -> None:
    body = bytes.fromhex(entries)
    head = (1).to_bytes(4) + len(body).to_bytes(4) + bytes(8) + bytes(4)
    with pytest.raises(ProtocolError, match=reason):
        MasterFrames().feed(head + body)


def test_a_master_with_more_than_a_thousand_epochs_sends_the_newest() -> None:
    epochs = Epochs(EpochEntry(number, 100 * number) for number in range(1, 1_201))
    (decoded,) = MasterFrames().feed(MasterLog(500_000, epochs).encode())
    assert decoded == MasterLog(500_000, Epochs(epochs.entries[-1_000:]))
