"""Puts small Parquet files of an archive together, so that one that is cut short loses and doubles nothing."""

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from kerolox.spark.pipelines.folders import Folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_WORK: Final = "_compacting"
_FILE_BYTES: Final = 128 << 20
_STAGING: Final = ".spark-staging"


class Intent(msgspec.Struct):
    """What is about to be replaced: noted before anything is, so that whoever comes next can finish it."""

    old: list[str]
    target: str


class Compactor:
    """Looks after one archive, whose folders are topic=.../day=.../batch=N."""

    def __init__(self, spark: "SparkSession", root: str, count_min: int, bytes_below: int) -> None:
        self._spark = spark
        self._root = root
        self._count_min = count_min
        self._bytes_below = bytes_below
        self.folders = Folders(spark, root)
        # How many folders were put together with others.
        self.count = 0

    @property
    def _fresh(self) -> str:
        return f"{self._root}/{_WORK}/fresh"

    @property
    def _noted(self) -> str:
        return f"{self._root}/{_WORK}/intent.json"

    def recover(self) -> None:
        """Finishes what was cut short, and removes what others have left behind."""
        noted = self.folders.read(self._noted)
        if noted is not None:
            self._replace(msgspec.json.decode(noted, type=Intent))
        self.folders.delete(f"{self._root}/{_WORK}")
        for entry in self.folders.entries(self._root):
            if entry.name.startswith(_STAGING):
                self.folders.delete(f"{self._root}/{entry.name}")

    def compact(self, before: int | None = None) -> None:
        """Puts together what is small, of batches before that number; all must be noted as done."""
        if self._count_min <= 0:
            return
        if not self.folders.renames_at_once:
            # One that was cut short in the middle of a rename could not be told from one that was not.
            log.warning("%s stays in small files: folders cannot be renamed there with one step", self._root)
            return
        for topic in self._parts(self._root, "topic="):
            for day in self._parts(topic, "day="):
                small = [
                    folder
                    for folder in self._parts(day, "batch=")
                    if (before is None or _number(folder) < before) and self.folders.size(folder) < self._bytes_below
                ]
                if len(small) >= max(2, self._count_min):
                    self._together(sorted(small, key=_number))

    def _parts(self, path: str, prefix: str) -> list[str]:
        entries = self.folders.entries(path)
        return [f"{path}/{entry.name}" for entry in entries if entry.is_folder and entry.name.startswith(prefix)]

    def _together(self, old: list[str]) -> None:
        total = sum(map(self.folders.size, old))
        # The paths are data: what would be a pattern in them is not.
        frame = self._spark.read.option("recursiveFileLookup", "true").parquet(*map(_escaped, old))
        frame = frame.coalesce(max(1, -(-total // _FILE_BYTES)))
        if "queueOffset" in frame.columns:
            frame = frame.sortWithinPartitions("brokerName", "queueId", "queueOffset")
        frame.write.mode("overwrite").parquet(self._fresh)
        intent = Intent(old, old[-1])
        self.folders.write(self._noted, msgspec.json.encode(intent).decode())
        self._replace(intent)
        self.folders.delete(f"{self._root}/{_WORK}")
        self.count += len(old)

    def _replace(self, intent: Intent) -> None:
        """Puts the fresh folder in the place of the old ones; done twice it makes no difference."""
        if not self.folders.exists(self._fresh):
            # It is in its place already.
            return
        for path in intent.old:
            self.folders.delete(path)
        self.folders.rename(self._fresh, intent.target)


def _number(folder: str) -> int:
    return int(folder.rpartition("=")[2])


def _escaped(path: str) -> str:
    return "".join(f"\\{letter}" if letter in "{}[]*?\\" else letter for letter in path)
