"""The check of the advertised address."""

import pytest

from kerolox.broker import Settings
from kerolox.broker.registration.advertised_address import check_advertised
from kerolox.errors import ConfigurationError


def settings(bind: str, advertised: str) -> Settings:
    changed = Settings()
    changed.update({"bindAddress": bind, "brokerIP1": advertised})
    return changed


@pytest.mark.parametrize(("bind", "advertised"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1")])
def test_an_address_that_clients_can_reach_is_accepted(
    bind: str, advertised: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_advertised(settings(bind, advertised))

    assert caplog.text == ""


def test_an_address_of_another_machine_is_a_warning_because_it_may_be_forwarded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check_advertised(settings("0.0.0.0", "192.0.2.1"))

    assert "brokerIP1=192.0.2.1 is not an address of this machine" in caplog.text
    assert "set brokerIP1 to the address at which clients reach this machine" in caplog.text


@pytest.mark.parametrize(("bind", "advertised"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "192.0.2.1")])
def test_an_address_that_no_client_can_reach_is_an_error(bind: str, advertised: str) -> None:
    with pytest.raises(ConfigurationError):
        check_advertised(settings(bind, advertised))
