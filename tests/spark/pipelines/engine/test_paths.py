"""File operations of Spark, on the local disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kerolox.spark.pipelines.engine.paths import Entry, Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_small_files_are_replaced_and_the_temporary_file_alone_is_read(spark: SparkSession, tmp_path: Path) -> None:
    folders = Paths(spark, str(tmp_path))
    path = f"{tmp_path}/a/state.json"
    assert (folders.read(path), folders.entries(f"{tmp_path}/a")) == (None, [])

    folders.write(path, "eins")
    folders.write(path, "zwei €")

    assert folders.read(path) == "zwei €"
    assert folders.entries(f"{tmp_path}/a") == [Entry("state.json", False, 8)]
    folders.rename(path, f"{path}.draft")
    assert folders.read(path) == "zwei €"
    with pytest.raises(OSError, match="cannot be renamed"):
        folders.rename(f"{tmp_path}/none", f"{tmp_path}/there/too")
