"""With what commands connect."""

from pathlib import Path

import pytest

from kerolox.cli.admin.connecting import DEFAULT_NAME_SERVER, TIMEOUT_SECONDS, client, options


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESRV_ADDR", "ROCKETMQ_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_name_servers_are_those_of_the_flag_the_environment_or_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = options(None).name_servers
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1;127.0.0.1:2")

    assert nowhere == [DEFAULT_NAME_SERVER]
    assert options(None).name_servers == ["127.0.0.1:1", "127.0.0.1:2"]
    assert options("127.0.0.1:3").name_servers == ["127.0.0.1:3"]


def test_keys_are_taken_from_the_file_of_javas_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("# keys\naccessKey: 'me'\nsecretKey: secret # not shown\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))

    found = options(None)
    given = options(None, access_key="you", secret_key="other")

    assert found.access_key == "me"
    assert (given.access_key, given.secret_key) == ("you", "other")


def test_a_home_without_keys_is_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))

    assert options(None).access_key is None


def test_a_client_waits_as_long_as_javas() -> None:
    assert client(options(None))._servers.timeout_seconds == TIMEOUT_SECONDS
