"""The drawings of files in docs/internals/store.md are those of the code."""

import re
import struct
from pathlib import Path

import pytest

from kerolox.message.records import layout as record_layout
from kerolox.store.index import layout
from kerolox.store.queue import consume_queue
from kerolox.store.recovery import checkpoint

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "store.md").read_text()
FORMATS = {"int32": "i", "int64": "q", "bytes8": "8s"}
DRAWN = {
    "A record": record_layout.HEADS[0],
    "An entry": consume_queue.ENTRY,
    "The key index": layout.HEADER,
    "The checkpoint": checkpoint._FIELDS,
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_fields_have_the_offsets_of_the_code(name: str) -> None:
    text = PAGE.partition(f"\n**{name}** ")[2].partition("```text\n")[2].partition("```")[0]
    found = re.findall(r"^(?:header)? *(\d+)  (int32|int64|bytes8)\b", text, re.MULTILINE)

    kinds = [FORMATS[kind] for _, kind in found]
    at = [struct.calcsize(f">{''.join(kinds[:number])}") for number in range(len(kinds))]

    assert [int(place) for place, _ in found] == at
    assert DRAWN[name].format.replace("I", "i") == f">{''.join(kinds)}"
