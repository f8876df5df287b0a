import pytest
from starlette.types import Scope

from kerolox.dashboard.http.proxies import apply_forwarded, networks
from kerolox.errors import ConfigurationError

TRUSTED = networks(["10.0.0.0/24", "2001:db8::7"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("10.0.0.7", ["203.0.113.9"], "203.0.113.9"),
        ("::ffff:10.0.0.7", ["203.0.113.9"], "203.0.113.9"),
        ("2001:db8::7", ["2001:db8:1::9"], "2001:db8:1::9"),
        ("10.0.0.7", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.7", ["198.51.100.1", "203.0.113.9, 10.0.0.8"], "203.0.113.9"),
        ("10.0.0.7", ["203.0.113.9:5678"], "203.0.113.9"),
        ("10.0.0.7", ["[2001:db8:1::9]:5678"], "2001:db8:1::9"),
        ("10.0.0.7", ["fe80::9%" + "x" * 1000], "fe80::9"),
        ("10.0.0.7", ["unknown"], "10.0.0.7"),
        ("10.0.0.7", ["198.51.100.1, nonsense, 10.0.0.8"], "10.0.0.8"),
        ("10.0.0.7", ["10.0.0.9, 10.0.0.8"], "10.0.0.9"),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_trusted_proxy(
    peer: str, forwarded: list[str], client: str
) -> None:
    scope = _scope(peer, [("x-forwarded-for", text) for text in forwarded])

    apply_forwarded(scope, TRUSTED)

    assert scope["client"][0] == client


@pytest.mark.parametrize(
    ("peer", "protocols", "scheme"),
    [
        ("10.0.0.7", ["https"], "https"),
        ("10.0.0.7", ["HTTPS"], "https"),
        ("10.0.0.7", [], "http"),
        ("10.0.0.7", ["http"], "http"),
        ("10.0.0.7", ["https, http"], "http"),
        ("203.0.113.9", ["https"], "http"),
    ],
)
def test_only_a_trusted_proxy_can_report_tls(peer: str, protocols: list[str], scheme: str) -> None:
    scope = _scope(peer, [("x-forwarded-proto", text) for text in protocols])

    apply_forwarded(scope, TRUSTED)

    assert scope["scheme"] == scheme


def test_an_invalid_proxy_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'nginx' is neither an IP address nor a network"):
        networks(["10.0.0.7", "nginx"])


def _scope(peer: str, headers: list[tuple[str, str]]) -> Scope:
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    return {"type": "http", "scheme": "http", "client": (peer, 1234), "headers": encoded}
