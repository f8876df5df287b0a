"""Files that commands write for the user, in folders where other users can neither plant links nor read."""

import os
import stat
from pathlib import Path

from kerolox.cli.admin.errors import CommandFailed


def private_directory(path: Path) -> Path:
    """Create a folder that only this user can enter, and its parents; return it.

    Raise CommandFailed if another user could have planted something there: one of the folders is a link, belongs to
    another user, or is world-writable without the sticky bit that /tmp has.
    """
    for folder in reversed((path, *path.parents)):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            _check_safe(folder)
        except OSError as error:
            raise CommandFailed(f"{folder} cannot be created: {error.strerror}") from error
    return path


def _check_safe(folder: Path) -> None:
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode) and found.st_uid in (0, os.getuid()):
        # Links made by root (such as /tmp on macOS) or by the user are trusted.
        found = folder.stat()
    is_shared = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.getuid()) or is_shared:
        raise CommandFailed(f"{folder} is not safe: another user could put links there; remove it, or choose another")


def write_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file atomically; a link of that name is replaced, not followed."""
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
