"""The address that clients are told."""

import pytest

from kerolox.broker import Settings
from kerolox.broker.advertised import check_advertised
from kerolox.errors import ConfigurationError


def settings(bind: str, advertised: str) -> Settings:
    made = Settings()
    made.update({"bindAddress": bind, "brokerIP1": advertised})
    return made


@pytest.mark.parametrize(("bind", "advertised"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1")])
def test_an_address_that_clients_can_reach_is_fine(
    bind: str, advertised: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_advertised(settings(bind, advertised))

    assert caplog.text == ""


def test_an_address_of_another_machine_is_a_warning_for_something_may_forward_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check_advertised(settings("0.0.0.0", "192.0.2.1"))

    assert "brokerIP1=192.0.2.1 is no address of this machine" in caplog.text
    assert "set brokerIP1 to the address that they reach this machine by" in caplog.text


@pytest.mark.parametrize(("bind", "advertised"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "192.0.2.1")])
def test_an_address_that_nobody_can_reach_ends_the_start(bind: str, advertised: str) -> None:
    with pytest.raises(ConfigurationError):
        check_advertised(settings(bind, advertised))
