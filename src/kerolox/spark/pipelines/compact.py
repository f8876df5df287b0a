"""Merges small Parquet files of an archive; a crash at any point neither loses nor duplicates messages."""

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from kerolox.spark.pipelines.engine.paths import Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_WORK: Final = "_compacting"
_FILE_BYTES: Final = 128 << 20
_STAGING: Final = ".spark-staging"


class Intent(msgspec.Struct):
    """A replacement, written before it starts, so that the next run can finish it."""

    old: list[str]
    target: str


class Compactor:
    """Compacts one archive, whose folders are topic=.../day=.../batch=N."""

    def __init__(self, spark: "SparkSession", root: str, count_min: int, bytes_below: int) -> None:
        self._spark = spark
        self._root = root
        self._count_min = count_min
        self._bytes_below = bytes_below
        self.paths = Paths(spark, root)
        # Number of folders that were merged.
        self.count = 0

    @property
    def _merged(self) -> str:
        return f"{self._root}/{_WORK}/fresh"

    @property
    def _intent_path(self) -> str:
        return f"{self._root}/{_WORK}/intent.json"

    def recover(self) -> None:
        """Finish an interrupted replacement, and remove temporary folders of interrupted runs."""
        content = self.paths.read(self._intent_path)
        if content is not None:
            self._replace(msgspec.json.decode(content, type=Intent))
        self.paths.delete(f"{self._root}/{_WORK}")
        for entry in self.paths.entries(self._root):
            if entry.name.startswith(_STAGING):
                self.paths.delete(f"{self._root}/{entry.name}")

    def compact(self, before: int | None = None) -> None:
        """Merge small batches with numbers below `before`; all of them must be committed in the checkpoint."""
        if self._count_min <= 0:
            return
        if not self.paths.renames_atomically:
            # After a crash during a non-atomic rename, a partial folder would look complete.
            log.warning("%s is not compacted: its file system cannot rename folders atomically", self._root)
            return
        for topic in self._parts(self._root, "topic="):
            for day in self._parts(topic, "day="):
                small = [
                    folder
                    for folder in self._parts(day, "batch=")
                    if (before is None or _number(folder) < before) and self.paths.size(folder) < self._bytes_below
                ]
                if len(small) >= max(2, self._count_min):
                    self._merge(sorted(small, key=_number))

    def _parts(self, path: str, prefix: str) -> list[str]:
        entries = self.paths.entries(path)
        return [f"{path}/{entry.name}" for entry in entries if entry.is_folder and entry.name.startswith(prefix)]

    def _merge(self, old: list[str]) -> None:
        total = sum(map(self.paths.size, old))
        # Topics may contain characters that are glob patterns in Hadoop paths.
        frame = self._spark.read.option("recursiveFileLookup", "true").parquet(*map(_escaped, old))
        frame = frame.coalesce(max(1, -(-total // _FILE_BYTES)))
        if "queueOffset" in frame.columns:
            frame = frame.sortWithinPartitions("brokerName", "queueId", "queueOffset")
        frame.write.mode("overwrite").parquet(self._merged)
        intent = Intent(old, old[-1])
        self.paths.write(self._intent_path, msgspec.json.encode(intent).decode())
        self._replace(intent)
        self.paths.delete(f"{self._root}/{_WORK}")
        self.count += len(old)

    def _replace(self, intent: Intent) -> None:
        """Replace the old folders by the merged one; idempotent."""
        if not self.paths.exists(self._merged):
            # It has already been renamed.
            return
        for path in intent.old:
            self.paths.delete(path)
        self.paths.rename(self._merged, intent.target)


def _number(folder: str) -> int:
    return int(folder.rpartition("=")[2])


def _escaped(path: str) -> str:
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in path)
