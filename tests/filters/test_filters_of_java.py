"""Java still gives the answers in the golden files of filters."""

import json

import pytest

from tests.apache import VERSIONS
from tests.golden import record_filters


@pytest.mark.compat
@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_java_answers_as_recorded(version: str) -> None:
    recorded = record_filters.path_of(version).read_text().split("\n")

    assert record_filters.ask(version) == [json.loads(line) for line in recorded if line]
