"""Text of others, as it is shown."""

from kerolox.runtime.printable import in_a_line, in_lines

WRITTEN = "caf\u00e9\tone\r\ntwo \x1b[31m\x7f\x85 \u65e5"


def test_what_cannot_be_seen_is_written_as_its_number() -> None:
    assert in_a_line(WRITTEN) == "caf\u00e9\tone\\x0d\\x0atwo \\x1b[31m\\x7f\\x85 \u65e5"


def test_lines_may_stay_lines() -> None:
    assert in_lines(WRITTEN) == "caf\u00e9\tone\\x0d\ntwo \\x1b[31m\\x7f\\x85 \u65e5"
