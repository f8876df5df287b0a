"""File operations wherever Spark can write: local disk, HDFS or an object store."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATOMIC_RENAME_SCHEMES = ("file", "hdfs", "viewfs")


class Entry(NamedTuple):
    name: str
    is_folder: bool
    size: int


class Paths:
    """Hadoop's FileSystem, with paths as strings."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        configuration = spark._jsc.hadoopConfiguration()
        self._system: Any = self._path(root).getFileSystem(configuration)

    @property
    def renames_atomically(self) -> bool:
        """Whether a folder is renamed atomically; object stores copy its files and delete the old ones."""
        return self._system.getScheme() in _ATOMIC_RENAME_SCHEMES

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a folder; empty if it does not exist."""
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
        """Rename a file or folder; OSError if that fails."""
        from py4j.protocol import Py4JJavaError

        try:
            is_done = self._system.rename(self._path(source), self._path(target))
        except Py4JJavaError as error:
            raise OSError(f"{source} cannot be renamed to {target}: {error.java_exception.getMessage()}") from error
        if not is_done:
            raise OSError(f"{source} cannot be renamed to {target}")

    def write(self, path: str, text: str) -> None:
        """Replace a small file; after a crash, `read` returns the old or the new content."""
        temporary = f"{path}.draft"
        stream = self._system.create(self._path(temporary), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self.exists(path):
            self.delete(path)
        self.rename(temporary, path)

    def read(self, path: str) -> str | None:
        """Return the content of a small file; None if it does not exist."""
        for name in (path, f"{path}.draft"):
            # The temporary file alone is left if `write` was interrupted between delete and rename.
            if self.exists(name):
                stream = self._system.open(self._path(name))
                try:
                    return bytes(stream.readAllBytes()).decode()
                finally:
                    stream.close()
        return None
