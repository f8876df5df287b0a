"""No request blocks the controller's event loop for long, whatever it contains."""

from typing import Any

import pytest

from kerolox.codes import RequestCode
from kerolox.wire.header import Request
from tests import hostile
from tests.controller.controllers import CLUSTER, NAME, ControllerFixture

pytestmark = pytest.mark.timeout(600)

KNOWN = {
    "brokerName": NAME,
    "clusterName": CLUSTER,
    "brokerAddr": "127.0.0.1:1",
    "brokerAddress": "127.0.0.1:1",
    "registerCheckCode": "127.0.0.1:1;1",
    "brokerId": 1,
    "masterBrokerId": 1,
    "masterEpoch": 1,
}
SAMPLES: dict[int, Any] = {
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: {"syncStateSet": [1], "syncStateSetEpoch": 1},
    RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: ["broker-NAME"],
}


def requests(controller: ControllerFixture) -> list[type[Request[Any]]]:
    return [kind for _, kind in sorted(controller.server.router.requests.items())]


async def test_no_header_blocks_the_loop_for_long(controller: ControllerFixture) -> None:
    await controller.group(1)
    frames = (
        (f"{kind.__name__}: {what}", frame)
        for kind in requests(controller)
        for what, frame in (*hostile.headers(kind, KNOWN), *hostile.over_the_limit(kind))
    )

    assert await hostile.slow(controller.address, frames) == {}


async def test_no_malformed_body_blocks_the_loop_for_long(controller: ControllerFixture) -> None:
    await controller.group(1)
    frames = (
        (f"{kind.__name__}: {what}", hostile.request_frame(kind, KNOWN, body))
        for what, body in hostile.bodies()
        for kind in requests(controller)
    )

    assert await hostile.slow(controller.address, frames) == {}


@pytest.mark.parametrize("code", SAMPLES, ids=lambda code: code.name)
async def test_no_long_list_in_a_body_blocks_the_loop_for_long(controller: ControllerFixture, code: int) -> None:
    await controller.group(1)
    kind = controller.server.router.requests[code]
    frames = ((what, hostile.request_frame(kind, KNOWN, body)) for what, body in hostile.bodies_like(SAMPLES[code]))

    assert await hostile.slow(controller.address, frames) == {}
