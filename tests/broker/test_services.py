"""Failures of services: the broker closes and raises the error."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kerolox.broker import Broker
from kerolox.errors import ServiceFailed
from kerolox.remoting.client import Client
from kerolox.runtime.service import Service
from kerolox.store.errors import StoreError
from tests.broker.brokers import running, sending, settings

# With a metrics listener, which is a service too. A broker writes nothing before it is opened.
_CHANGES = {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}
_SERVICES = [str(service) for service in Broker(settings(Path("unused"), **_CHANGES)).services]


def fail_when(is_failing: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        await is_failing.wait()
        raise RuntimeError("no more")

    return fail


@pytest.mark.parametrize("number", range(len(_SERVICES)), ids=_SERVICES)
async def test_the_failure_of_any_service_is_raised_and_the_store_is_closed_cleanly(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(settings(tmp_path, **_CHANGES))
    service, is_failing = broker.services[number], asyncio.Event()
    monkeypatch.setattr(service, "run", fail_when(is_failing))

    async def body() -> None:
        async with Client() as client:
            await client.call(broker.address, sending("orders"), b"acknowledged")
            is_failing.set()
            await asyncio.Event().wait()

    with pytest.raises(ServiceFailed) as raised:
        async with asyncio.timeout(30), broker:
            await body()

    assert str(raised.value) == f"{service} failed: RuntimeError: no more"
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert not (tmp_path / "abort").exists()
    async with running(tmp_path) as again:
        assert [message.body for message in await again.messages("orders")] == [b"acknowledged"]


@pytest.mark.parametrize(
    "part",
    [
        lambda broker: broker.store.flusher,
        lambda broker: broker.store.flush_behind,
        lambda broker: broker.store.retention,
        lambda broker: broker.transactions.op_queue,
        lambda broker: broker.transactions.checker,
    ],
    ids=["flusher", "behind", "retention", "ops", "checker"],
)
async def test_the_failure_of_a_task_of_a_service_is_raised_without_exception_groups(
    tmp_path: Path, part: Callable[[Broker], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(settings(tmp_path))
    is_failing = asyncio.Event()
    monkeypatch.setattr(part(broker), "run", fail_when(is_failing))
    is_failing.set()

    with pytest.raises(ServiceFailed, match="failed: RuntimeError: no more") as raised:
        async with asyncio.timeout(30), broker:
            await asyncio.Event().wait()

    assert isinstance(raised.value.__cause__, RuntimeError)


async def test_a_broker_stops_serving_when_a_service_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(settings(tmp_path))
    is_failing = asyncio.Event()
    monkeypatch.setattr(broker.timer, "run", fail_when(is_failing))
    await broker.open()
    address = broker.address
    is_failing.set()

    with pytest.raises(ServiceFailed, match="Timer failed"):
        await broker.wait()

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*address.split(":"))


async def test_a_broker_that_cannot_start_closes_its_connections_and_raises_the_error_itself(tmp_path: Path) -> None:
    async with running(tmp_path):
        second = Broker(settings(tmp_path))
        with pytest.raises(StoreError, match="lock"):
            await second.open()
