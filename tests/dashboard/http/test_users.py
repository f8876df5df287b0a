import stat
from pathlib import Path

import pytest

from kerolox.dashboard.http import users
from kerolox.errors import ConfigurationError


def test_only_the_right_password_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "users.json"
    users.add(file, "ada", "correct horse")
    users.add(file, "bob", "battery staple", is_reader=True)

    known = users.load(file)

    ada, bob = known.check("ada", "correct horse"), known.check("bob", "battery staple")
    assert ada is not None
    assert bob is not None
    assert (ada.is_reader, bob.is_reader) == (False, True)
    assert known.check("ada", "battery staple") is None
    assert known.check("eve", "correct horse") is None


def test_a_second_password_replaces_the_first(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    users.add(file, "ada", "the first one")
    users.add(file, "ada", "the second one")

    known = users.load(file)

    assert known.check("ada", "the first one") is None
    assert known.check("ada", "the second one") is not None


def test_the_file_is_private_and_contains_no_password(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    users.add(file, "ada", "correct horse")

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "correct horse" not in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["users.json"]


@pytest.mark.parametrize(
    ("name", "password", "error"),
    [
        ("", "long enough", "invalid user name"),
        ("a\n", "long enough", "invalid user name"),
        ("ada", "short", "5 characters"),
    ],
)
def test_invalid_names_and_passwords_are_refused(tmp_path: Path, name: str, password: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        users.add(tmp_path / "users.json", name, password)


def test_an_invalid_users_file_is_a_configuration_error(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    file.write_text("[1, 2")

    with pytest.raises(ConfigurationError, match="is not a valid users file"):
        users.load(file)
