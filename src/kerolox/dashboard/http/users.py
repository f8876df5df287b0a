"""The users of a dashboard: a JSON file with names and scrypt hashes of passwords."""

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerolox.errors import ConfigurationError
from kerolox.runtime.files import RealDisk

PASSWORD_SIZE_MIN, PASSWORD_SIZE_MAX = 8, 1024
NAME_SIZE_MAX = 64
_FILE_SIZE_MAX = 4 * 1024 * 1024
# scrypt parameters: 16 MiB and about 50 ms per check.
_N, _R, _P = 2**14, 8, 1
_MEMORY_MAX = 64 * 1024 * 1024


class User(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    salt: str
    hash: str
    n: int = _N
    r: int = _R
    p: int = _P
    # A reader cannot change anything.
    is_reader: bool = False


class _File(msgspec.Struct):
    users: list[User] = []


@dataclass(frozen=True, slots=True)
class Users:
    by_name: dict[str, User]

    def check(self, name: str, password: str) -> User | None:
        """Return the user if the password is correct. Takes some 50 ms: call it in a thread.

        An unknown name takes as long as a known one, so that names cannot be guessed by timing.
        """
        user = self.by_name.get(name)
        expected = user or _DUMMY_USER
        is_correct = hmac.compare_digest(_hash(password, expected), base64.b64decode(expected.hash))
        return user if is_correct and user is not None else None


def load(path: Path) -> Users:
    """Read a users file; ConfigurationError if it has no users."""
    users = _read(path)
    if not users:
        raise ConfigurationError(
            f"{path} has no users: add one with `kerolox dashboard --users {path} --add-user NAME`"
        )
    return Users({user.name: user for user in users})


def add(path: Path, name: str, password: str, *, is_reader: bool = False) -> None:
    """Add a user, or changes the password of one; the file is readable by its owner only."""
    if not name or len(name) > NAME_SIZE_MAX or not name.isprintable():
        raise ConfigurationError(f"invalid user name {name!r}: expected 1 to {NAME_SIZE_MAX} printable characters")
    if not PASSWORD_SIZE_MIN <= len(password) <= PASSWORD_SIZE_MAX:
        raise ConfigurationError(
            f"password of {len(password)} characters, {PASSWORD_SIZE_MIN} to {PASSWORD_SIZE_MAX} are allowed"
        )
    users = {user.name: user for user in _read(path)}
    salt = base64.b64encode(os.urandom(16)).decode()
    user = User(name=name, salt=salt, hash="", is_reader=is_reader)
    users[name] = msgspec.structs.replace(user, hash=base64.b64encode(_hash(password, user)).decode())
    _write(path, list(users.values()))


def _read(path: Path) -> list[User]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(f"the users file {path} cannot be read: {error.strerror}") from error
    if len(data) > _FILE_SIZE_MAX:
        raise ConfigurationError(f"the users file {path} has {len(data)} bytes, at most {_FILE_SIZE_MAX} allowed")
    try:
        return msgspec.json.decode(data, type=_File).users
    except msgspec.MsgspecError as error:
        raise ConfigurationError(f"{path} is not a valid users file: {error}") from error


def _write(path: Path, users: list[User]) -> None:
    disk = RealDisk()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        disk.make_directory(path.parent)
        temporary.touch(mode=0o600)
        temporary.chmod(0o600)
        with temporary.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(_File(users))) + b"\n")
        disk.sync(temporary)
        temporary.replace(path)
        disk.sync(path.parent)
    except OSError as error:
        raise ConfigurationError(f"the users file {path} cannot be written: {error.strerror}") from error


def _hash(password: str, user: User) -> bytes:
    data = password.encode("utf-8", "surrogatepass")
    salt = base64.b64decode(user.salt)
    try:
        return hashlib.scrypt(data, salt=salt, n=user.n, r=user.r, p=user.p, maxmem=_MEMORY_MAX)
    except ValueError as error:
        raise ConfigurationError(f"the hash of user {user.name!r} cannot be checked: {error}") from error


_DUMMY_USER = User(name="", salt=base64.b64encode(bytes(16)).decode(), hash=base64.b64encode(bytes(64)).decode())
