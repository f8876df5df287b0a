"""Several controllers that share etcd: one leads, the others say so, and one of them takes over."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerolox.codes import ResponseCode as R
from kerolox.controller import ControllerConfig
from kerolox.controller.config import ControllerStorage
from kerolox.controller.state import BrokerGroup
from kerolox.controller.storage.etcd import Etcd
from kerolox.errors import AnswerError
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.wire.header import Request
from kerolox.wire.headers import controller as h
from tests.controller.controllers import NAME, ControllerFixture, config_in, running
from tests.controller.etcd import free_ports

_prefixes = itertools.count()
LEADERS_ONLY: tuple[Request[Any], ...] = (
    h.GetReplicaInfo(broker_name=NAME),
    h.ElectMaster(broker_name=NAME),
    h.GetNextBrokerId(cluster_name="C", broker_name=NAME),
    h.CleanBrokerData(broker_name=NAME),
)


@pytest.fixture
def configs(etcd_url: str, tmp_path: Path) -> list[ControllerConfig]:
    ports = free_ports(3)
    prefix = f"/several/{next(_prefixes)}"
    configs = []
    for number in range(3):
        config = config_in(tmp_path / str(number))
        config.controller_storage = ControllerStorage.ETCD
        config.etcd_endpoints = etcd_url
        config.etcd_key_prefix = prefix
        config.controller_d_leger_peers = ";".join(f"n{it}-127.0.0.1:{port}" for it, port in enumerate(ports))
        config.controller_d_leger_self_id = f"n{number}"
        configs.append(config)
    return configs


async def test_one_controller_leads_and_the_others_refuse(configs: list[ControllerConfig]) -> None:
    async with AsyncExitStack() as stack:
        leader, *others = [await stack.enter_async_context(running(config)) for config in configs]
        await leader.group(2)

        for number, controller in enumerate([leader, *others]):
            fields = (await controller.call(h.GetControllerMetadata())).fields
            assert (fields.controller_leader_id, fields.controller_leader_address) == ("n0", leader.address)
            assert fields.is_leader is (number == 0)
            assert fields.peers == ";".join(f"n{it}:{each.address}" for it, each in enumerate([leader, *others]))
        for controller in others:
            for request in LEADERS_ONLY:
                with pytest.raises(AnswerError) as raised:
                    await controller.call(request)
                assert raised.value.code == R.CONTROLLER_NOT_LEADER
            await controller.call(h.GetControllerConfig())


async def take_over(controller: ControllerFixture) -> None:
    async with asyncio.timeout(30):
        while not controller.server.leadership.current.is_leader:
            await controller.clock.advance(1)
            await asyncio.sleep(0.01)


async def test_another_controller_takes_over_with_all_groups(configs: list[ControllerConfig]) -> None:
    async with running(configs[1]) as second, running(configs[0]) as first:
        assert second.server.leadership.current.is_leader
        assert not first.server.leadership.current.is_leader
        await second.group(2)
        before = await second.info()
        await second.server.leadership.close()
        await take_over(first)

        after = await first.info()

        assert (after.master_broker_id, after.master_epoch) == (1, before.master_epoch)
        assert not any(it.alive for it in after.in_sync_replicas), "its brokers have sent it no heartbeat"


async def test_a_controller_that_wrongly_takes_itself_for_the_leader_changes_nothing(
    configs: list[ControllerConfig],
) -> None:
    async with running(configs[0]) as controller:
        first, second = await controller.group(2)
        etcd = Etcd([configs[0].etcd_endpoints], configs[0].etcd_key_prefix, SystemClock())
        stored = await etcd.read(NAME)
        assert stored is not None
        group = msgspec.json.decode(stored.value, type=BrokerGroup)
        elsewhere = msgspec.structs.replace(
            group, master=2, master_epoch=7, sync_state_set=frozenset({2}), sync_state_set_epoch=9
        )
        await etcd.replace(NAME, msgspec.json.encode(elsewhere), stored.version)
        await etcd.close()

        with pytest.raises(AnswerError) as raised:
            await first.alter(1, master_epoch=1, set_epoch=2)

        assert raised.value.code == R.CONTROLLER_INVALID_MASTER, "decided again, from the current value"
        info = await controller.info()
        assert (info.master_broker_id, info.master_epoch, info.sync_state_set_epoch) == (2, 7, 9)
        assert second.broker_id == 2


async def test_a_leader_without_etcd_stops_leading_when_its_lease_may_have_expired(
    configs: list[ControllerConfig],
) -> None:
    clock = ManualClock()
    async with running(configs[0], clock=clock) as controller:
        await controller.group(1)
        # Not `advance`: the campaigns that it wakes would renew the lease.
        clock._now += configs[0].etcd_lease_seconds

        with pytest.raises(AnswerError) as raised:
            await controller.call(h.GetReplicaInfo(broker_name=NAME))

        assert raised.value.code == R.CONTROLLER_NOT_LEADER
        assert not (await controller.call(h.GetControllerMetadata())).fields.is_leader
