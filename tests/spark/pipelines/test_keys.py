"""Keys of a section are taken one by one."""

import pytest

from kerolox.spark.given import OptionError
from kerolox.spark.pipelines.keys import Keys


def test_one_text_is_a_list_of_one_and_dots_are_part_of_names() -> None:
    keys = Keys({"topics": "orders", "options": {"a": {"b": {"c": 1}}, "d": True}}, "the file")

    assert keys.list("topics") == ["orders"]
    assert keys.texts("options") == {"a.b.c": "1", "d": "true"}
    assert (keys.text("name"), keys.flag("stream", default=True), keys.section("watermark")) == (None, True, None)
    keys.end()


def test_what_nobody_takes_is_unknown() -> None:
    keys = Keys({"zzz": 1}, "source.orders", "source.orders.")
    keys.text("format")

    with pytest.raises(OptionError, match=r"source.orders.zzz is unknown in source.orders: there are format"):
        keys.end()
