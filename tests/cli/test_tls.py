"""Commands with TLS: they verify servers and present client certificates."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner, Result

from kerolox.broker import Settings
from kerolox.cli.app import main
from kerolox.local.cluster import Cluster
from kerolox.namesrv import NamesrvConfig
from kerolox.runtime.event_loop import new_loop
from tests.remoting.support import issue


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with certificates of a server and a client, their CA (ca.pem), and an unrelated CA (stranger.pem)."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "stranger.pem")
    issue(authority, folder, "127.0.0.1")
    issue(authority, folder, "me.example", stem="client")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a NameServer which, like its broker, requires client certificates."""
    tls = {
        "tls.server.certPath": str(folder / "server.pem"),
        "tls.server.keyPath": str(folder / "server.key"),
        "tls.server.trustCertPath": str(folder / "ca.pem"),
        "tls.server.need.client.auth": "require",
    }
    config = NamesrvConfig(
        listen_port=0, kv_config_path=folder / "kv.json", config_store_path=folder / "namesrv.properties"
    )
    config.update(tls)
    settings = Settings()
    settings.update({**tls, "brokerName": "broker-a", "listenPort": "0", "storePathRootDir": str(folder / "store")})
    settings.update({"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "100", "maxIndexNum": "1000"})
    loop = new_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    cluster = Cluster(config, [settings])
    asyncio.run_coroutine_threadsafe(cluster.open(), loop).result(60)
    try:
        yield cluster.namesrv_addr
    finally:
        asyncio.run_coroutine_threadsafe(cluster.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def run(*arguments: str, typed: str | None = None) -> Result:
    result = CliRunner().invoke(main, list(arguments), input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def tls_flags(folder: Path, ca: str = "ca.pem") -> list[str]:
    files = {"--tls-ca": ca, "--tls-cert": "client.pem", "--tls-key": "client.key"}
    return [word for flag, name in files.items() for word in (flag, str(folder / name))]


def test_servers_are_verified_and_clients_authenticate(folder: Path, address: str) -> None:
    sent = run("send", "orders", "-b", "hello", "-n", address, *tls_flags(folder))
    read = run("consume", "orders", "-e", "-n", address, *tls_flags(folder))
    listed = run("admin", "topicList", "-n", address, *tls_flags(folder))
    checked = run("doctor", "-n", address, *tls_flags(folder))

    assert sent.exit_code == 0, sent.output
    assert "hello" in read.stdout, read.output
    assert "orders" in listed.stdout.splitlines(), listed.output
    assert f"NameServer {address} answers" in checked.stdout, checked.output


def test_a_server_signed_by_another_ca_is_not_trusted(folder: Path, address: str) -> None:
    result = run("admin", "topicList", "-n", address, *tls_flags(folder, "stranger.pem"))

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "give the CA that signed the server's certificate with --tls-ca" in result.stderr


def test_a_client_without_a_certificate_is_rejected(folder: Path, address: str) -> None:
    result = run("admin", "topicList", "-n", address, "--tls")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize("command", [("admin", "topicList"), ("top",), ("dashboard", "--port", "0")])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--tls-ca", "/nosuch"), "--tls-ca /nosuch cannot be used: No such file or directory"),
        (("--tls-ca", "{folder}/client.key"), "/client.key cannot be used: no certificate or key in PEM format"),
        (("--tls-cert", "/nosuch"), "--tls-cert /nosuch cannot be used: No such file or directory"),
        (
            ("--tls-cert", "{folder}/client.pem", "--tls-key", "{folder}/server.key"),
            "cannot be used: no certificate or key in PEM format, or the key does not match the certificate",
        ),
        (("--tls-key", "/nosuch"), "--tls-key /nosuch needs a certificate: give it with --tls-cert"),
    ],
)
def test_unusable_tls_files_are_named(
    folder: Path, command: tuple[str, ...], flags: tuple[str, ...], message: str
) -> None:
    result = run(*command, *(word.format(folder=folder) for word in flags))

    assert result.exit_code != 0
    assert message in result.stderr
