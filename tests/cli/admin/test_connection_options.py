"""Client options of commands."""

from pathlib import Path

import pytest

from kerolox.cli.admin.connection_options import DEFAULT_NAME_SERVER, TIMEOUT_SECONDS, admin_client, client_options


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESRV_ADDR", "ROCKETMQ_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_name_servers_come_from_flag_environment_or_default(monkeypatch: pytest.MonkeyPatch) -> None:
    default = client_options(None).name_servers
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1;127.0.0.1:2")

    assert default == [DEFAULT_NAME_SERVER]
    assert client_options(None).name_servers == ["127.0.0.1:1", "127.0.0.1:2"]
    assert client_options("127.0.0.1:3").name_servers == ["127.0.0.1:3"]


def test_keys_are_read_from_tools_yml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("# keys\naccessKey: 'me'\nsecretKey: secret # not shown\n")
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))

    from_file = client_options(None)
    from_flags = client_options(None, access_key="you", secret_key="other")

    assert from_file.access_key == "me"
    assert (from_flags.access_key, from_flags.secret_key) == ("you", "other")


def test_a_missing_tools_yml_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))

    assert client_options(None).access_key is None


def test_a_client_has_javas_timeout() -> None:
    assert admin_client(client_options(None))._servers.timeout_seconds == TIMEOUT_SECONDS
