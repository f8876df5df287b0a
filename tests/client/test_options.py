import os
import ssl
from dataclasses import fields

import pytest

from kerolox.client.options import Options, Shared, local_ip, options_of
from kerolox.errors import ConfigurationError


def make(**keywords: object) -> Options:
    return Options(**({"namesrv_addr": "127.0.0.1:9876", "client_ip": "10.0.0.1"} | keywords))  # type: ignore[arg-type]


def test_keywords_of_clients_are_the_fields_of_the_options() -> None:
    assert set(Shared.__annotations__) == {field.name for field in fields(Options) if field.init} - {"_token"}


def test_client_ids_are_unique_and_have_java_s_format() -> None:
    first, second = make().client_id, make().client_id

    assert first != second
    assert first.startswith(f"10.0.0.1@{os.getpid()}#")


def test_an_instance_name_fixes_the_client_id() -> None:
    assert make(instance_name="orders").client_id == "10.0.0.1@orders"
    assert make(instance_name="orders", unit_name="u1").client_id == "10.0.0.1@orders@u1"


def test_a_fork_has_its_own_client_id(monkeypatch: pytest.MonkeyPatch) -> None:
    options = make()
    of_parent = options.client_id

    monkeypatch.setattr(os, "getpid", lambda: 1)

    assert options.client_id != of_parent


def test_name_servers_are_a_string_a_list_or_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")

    assert make(namesrv_addr="a:1; b:2").name_servers == ["a:1", "b:2"]
    assert make(namesrv_addr=["a:1", "b:2"]).name_servers == ["a:1", "b:2"]
    assert make(namesrv_addr="").name_servers == ["env:9876"]


def test_a_missing_name_server_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)

    with pytest.raises(ConfigurationError, match="NAMESRV_ADDR"):
        Options()


def test_a_key_without_its_secret_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="secret_key"):
        make(access_key="somebody")


def test_secrets_are_not_in_the_repr() -> None:
    assert "12345678" not in repr(make(access_key="somebody", secret_key="12345678"))


def test_tls_without_a_context_verifies_nothing() -> None:
    context = make(tls=True).tls_context

    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE
    assert make().tls_context is None


def test_the_vip_port_is_two_below() -> None:
    assert make(vip_channel_enabled=True).vip("10.0.0.2:10911") == "10.0.0.2:10909"
    assert make(vip_channel_enabled=True).vip("[::1]:10911") == "[::1]:10909"
    assert make().vip("10.0.0.2:10911") == "10.0.0.2:10911"


def test_options_and_keywords_exclude_each_other() -> None:
    options = make()

    assert options_of(options) is options
    assert options_of(None, namesrv_addr="a:1").name_servers == ["a:1"]
    with pytest.raises(ConfigurationError, match="not both"):
        options_of(options, namespace="ns")


def test_local_ip_returns_an_ip_address() -> None:
    assert local_ip().count(".") == 3
