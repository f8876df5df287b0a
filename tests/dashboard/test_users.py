import stat
from pathlib import Path

import pytest

from kerolox.dashboard import users
from kerolox.errors import ConfigurationError


def test_a_user_is_known_by_their_password_only(tmp_path: Path) -> None:
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


def test_the_file_is_for_its_owner_and_has_no_password_in_it(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    users.add(file, "ada", "correct horse")

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "correct horse" not in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["users.json"]


@pytest.mark.parametrize(
    ("name", "password", "said"),
    [("", "long enough", "is no name"), ("a\n", "long enough", "is no name"), ("ada", "short", "5 characters")],
)
def test_what_cannot_be_a_user_is_refused(tmp_path: Path, name: str, password: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        users.add(tmp_path / "users.json", name, password)


def test_a_file_that_is_none_is_told_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    file.write_text("[1, 2")

    with pytest.raises(ConfigurationError, match="is no users file"):
        users.load(file)
