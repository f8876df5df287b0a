"""Messages for tests: the one of the reference, and arbitrary ones from Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from kerolox.message import hosts
from kerolox.message.message import Message

HELLO = Message(
    topic="TopicTest",
    body=b"hello",
    properties=b"TAGS\x01TagA\x02WAIT\x01true\x02",
    queue_id=2,
    queue_offset=7,
    physical_offset=4096,
    born_timestamp=1700000000000,
    born_host=hosts.parse("192.168.1.10:51234"),
    store_timestamp=1700000000005,
    store_host=hosts.parse("192.168.1.20:10911"),
)
HELLO_RECORD = bytes.fromhex(
    "0000007D DAA320A7 3610A686 00000002 00000000 0000000000000007 0000000000001000 00000000"
    "0000018BCFE56800 C0A8010A 0000C822 0000018BCFE56805 C0A80114 00002A9F 00000000 0000000000000000"
    "00000005 68656C6C6F 09 546F70696354657374 0014 5441475301546167410257414954017472756502"
)

V4 = hosts.parse("10.0.0.1:10911")
V6 = hosts.parse("[fd00::2]:10911")

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
host = st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20))
topics = st.one_of(
    st.text(max_size=40).filter(lambda text: len(text.encode()) <= 127),
    st.integers(0, 248).map(lambda size: "%RETRY%" + "g" * size),
    st.integers(0, 250).map(lambda size: "%DLQ%" + "g" * size),
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20)
mappings = st.dictionaries(texts, texts, max_size=5)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    born_host, store_host = draw(host), draw(host)
    flags = (0x10 if len(born_host) == 20 else 0) | (0x20 if len(store_host) == 20 else 0)
    return Message(
        topic=draw(topics),
        body=draw(st.binary(max_size=100)),
        properties=draw(st.binary(max_size=100)),
        queue_id=draw(int32),
        flag=draw(int32),
        sys_flag=draw(int32) & ~0x30 | flags,
        born_timestamp=draw(int64),
        born_host=born_host,
        store_timestamp=draw(int64),
        store_host=store_host,
        reconsume_times=draw(int32),
        prepared_transaction_offset=draw(int64),
        queue_offset=draw(int64),
        physical_offset=draw(int64),
    )
