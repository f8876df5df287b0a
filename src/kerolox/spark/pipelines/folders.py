"""Files and folders wherever Spark can write: on this disk, HDFS or an object store."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = ("file", "hdfs", "viewfs")


class Entry(NamedTuple):
    name: str
    is_folder: bool
    size: int


class Folders:
    """What Hadoop's FileSystem can do, by paths as texts."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        configuration = spark._jsc.hadoopConfiguration()
        self._system: Any = self._path(root).getFileSystem(configuration)

    @property
    def renames_at_once(self) -> bool:
        """Whether a folder is renamed with one step; object stores copy its files, and then delete them."""
        return self._system.getScheme() in _AT_ONCE

    def entries(self, path: str) -> list[Entry]:
        """Returns what is in a folder; nothing if there is none."""
        if not self.exists(path):
            return []
        found = self._system.listStatus(self._path(path))
        return sorted(Entry(each.getPath().getName(), each.isDirectory(), each.getLen()) for each in found)

    def size(self, path: str) -> int:
        return int(self._system.getContentSummary(self._path(path)).getLength())

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def delete(self, path: str) -> None:
        self._system.delete(self._path(path), True)

    def rename(self, source: str, target: str) -> None:
        """OSError if Hadoop says that it has not."""
        from py4j.protocol import Py4JJavaError

        try:
            is_done = self._system.rename(self._path(source), self._path(target))
        except Py4JJavaError as error:
            raise OSError(f"{source} cannot be renamed to {target}: {error.java_exception.getMessage()}") from error
        if not is_done:
            raise OSError(f"{source} cannot be renamed to {target}")

    def write(self, path: str, text: str) -> None:
        """Replaces a small file, whole or not at all."""
        draft = f"{path}.draft"
        stream = self._system.create(self._path(draft), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self.exists(path):
            self.delete(path)
        self.rename(draft, path)

    def read(self, path: str) -> str | None:
        """Returns a small file; None if there is none."""
        for name in (path, f"{path}.draft"):
            # A draft alone is what is left of a replacement that was cut short between delete and rename.
            if self.exists(name):
                stream = self._system.open(self._path(name))
                try:
                    return bytes(stream.readAllBytes()).decode()
                finally:
                    stream.close()
        return None
