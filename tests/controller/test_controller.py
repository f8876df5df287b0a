"""A controller over real sockets: each request, each refusal, and elections by events and scans."""

import errno
from pathlib import Path
from typing import Any

import pytest

from kerolox.codes import RequestCode
from kerolox.codes import ResponseCode as R
from kerolox.controller import Controller, ControllerConfig
from kerolox.errors import AnswerError
from kerolox.runtime.files import RealDisk
from kerolox.runtime.text import properties
from kerolox.wire.bodies.controller import ElectMasterResponseBody, SyncStateSet
from kerolox.wire.command import JSON, encode
from kerolox.wire.header import Request, ext_text
from kerolox.wire.headers import controller as h
from kerolox.wire.headers.namesrv import BrokerHeartbeat
from tests.controller.controllers import CLUSTER, NAME, ControllerFixture, running, until
from tests.policies import FORMS, REFUSAL, SwitchedPolicy, frames_of
from tests.remoting.support import Peer


async def test_a_broker_gets_an_id_registers_and_becomes_master(controller: ControllerFixture) -> None:
    broker = await controller.broker()
    await broker.join()
    answer = await broker.elect()

    assert broker.broker_id == 1
    assert (answer.code, ext_text(answer.ext)) == (
        R.SUCCESS,
        {"masterBrokerId": "1", "masterAddress": broker.address, "syncStateSetEpoch": "1", "masterEpoch": "1"},
    )
    body = ElectMasterResponseBody.decode(answer.body)
    assert body.sync_state_set == [1]
    assert body.broker_member_group is not None
    assert body.broker_member_group.broker_addrs == {1: broker.address}


async def test_a_second_broker_is_told_the_master(controller: ControllerFixture) -> None:
    first, second = await controller.broker(), await controller.broker()
    await first.join()
    await first.elect()
    await second.join()
    reply = await second.register()

    assert (reply.fields.master_broker_id, reply.fields.master_epoch) == (1, 1)
    assert SyncStateSet.decode(reply.body) == SyncStateSet([1], 1)
    assert (await second.elect()).code == R.CONTROLLER_MASTER_STILL_EXIST


async def test_the_master_changes_the_sync_state_set(controller: ControllerFixture) -> None:
    master, _ = await controller.group(2)

    reply = await controller.call(h.GetReplicaInfo(broker_name=NAME))

    assert reply.fields == h.ReplicaInfo(master_broker_id=1, master_address=master.address, master_epoch=1)
    assert SyncStateSet.decode(reply.body) == SyncStateSet([1, 2], 2)


async def test_replicas_are_listed(controller: ControllerFixture) -> None:
    first, second = await controller.group(2)
    third = await (await controller.broker()).join()

    info = await controller.info()

    assert [(it.broker_id, it.broker_address, it.alive) for it in info.in_sync_replicas] == [
        (1, first.address, True),
        (2, second.address, True),
    ]
    assert [(it.broker_id, it.broker_address, it.alive) for it in info.not_in_sync_replicas] == [
        (3, third.address, True)
    ]
    assert (info.master_broker_id, info.master_epoch, info.sync_state_set_epoch) == (1, 1, 2)


async def test_metadata_names_the_leader(controller: ControllerFixture) -> None:
    reply = await controller.call(h.GetControllerMetadata())

    assert reply.fields == h.ControllerMetadata(
        group="controller",
        controller_leader_id="n0",
        controller_leader_address=controller.address,
        is_leader=True,
        peers=f"n0:{controller.address}",
    )


# Refusals

HEARTBEAT = BrokerHeartbeat(cluster_name=CLUSTER, broker_addr="127.0.0.1:1", broker_name=NAME)
REFUSALS: dict[str, tuple[Request[Any], bytes, R]] = {
    "old master epoch": (
        h.AlterSyncStateSet(master_broker_id=1, broker_name=NAME, master_epoch=0),
        b'{"syncStateSet":[1],"syncStateSetEpoch":2}',
        R.CONTROLLER_FENCED_MASTER_EPOCH,
    ),
    "old set epoch": (
        h.AlterSyncStateSet(master_broker_id=1, broker_name=NAME, master_epoch=1),
        b'{"syncStateSet":[1],"syncStateSetEpoch":1}',
        R.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
    ),
    "set by a slave": (
        h.AlterSyncStateSet(master_broker_id=2, broker_name=NAME, master_epoch=1),
        b'{"syncStateSet":[2],"syncStateSetEpoch":2}',
        R.CONTROLLER_INVALID_MASTER,
    ),
    "unknown member": (
        h.AlterSyncStateSet(master_broker_id=1, broker_name=NAME, master_epoch=1),
        b'{"syncStateSet":[1,9],"syncStateSetEpoch":2}',
        R.CONTROLLER_INVALID_REPLICAS,
    ),
    "dead member": (
        h.AlterSyncStateSet(master_broker_id=1, broker_name=NAME, master_epoch=1),
        b'{"syncStateSet":[1,2,3],"syncStateSetEpoch":2}',
        R.CONTROLLER_BROKER_NOT_ALIVE,
    ),
    "unchanged set": (
        h.AlterSyncStateSet(master_broker_id=1, broker_name=NAME, master_epoch=1),
        b'{"syncStateSet":[1,2],"syncStateSetEpoch":2}',
        R.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    ),
    "a set that is no JSON": (
        h.AlterSyncStateSet(master_broker_id=1, broker_name=NAME, master_epoch=1),
        b"!",
        R.SYSTEM_ERROR,
    ),
    "a huge set": (
        h.AlterSyncStateSet(master_broker_id=1, broker_name=NAME, master_epoch=1),
        b'{"syncStateSet":[' + b"1," * 100 + b'1],"syncStateSetEpoch":2}',
        R.CONTROLLER_INVALID_REQUEST,
    ),
    "heartbeat without id": (HEARTBEAT, b"", R.CONTROLLER_INVALID_REQUEST),
    "heartbeat without name": (
        BrokerHeartbeat(broker_id=1, cluster_name=CLUSTER, broker_addr="127.0.0.1:1"),
        b"",
        R.CONTROLLER_INVALID_REQUEST,
    ),
    "unknown group": (h.GetReplicaInfo(broker_name="none"), b"", R.CONTROLLER_BROKER_METADATA_NOT_EXIST),
    "a name with a blank": (h.GetReplicaInfo(broker_name="a b"), b"", R.CONTROLLER_INVALID_REQUEST),
    "a long name": (h.GetReplicaInfo(broker_name="a" * 256), b"", R.CONTROLLER_INVALID_REQUEST),
    "clean a living broker": (
        h.CleanBrokerData(broker_name=NAME, broker_controller_ids_to_clean="2"),
        b"",
        R.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    ),
    "unregistered broker": (
        h.RegisterBrokerToController(broker_id=9, cluster_name=CLUSTER, broker_name=NAME, broker_address="127.0.0.1:1"),
        b"",
        R.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    ),
    "no address": (
        h.RegisterBrokerToController(broker_id=2, cluster_name=CLUSTER, broker_name=NAME, broker_address="here"),
        b"",
        R.CONTROLLER_INVALID_REQUEST,
    ),
    "designated outside the set": (
        h.ElectMaster(broker_id=3, broker_name=NAME, designate_elect=True),
        b"",
        R.CONTROLLER_ELECT_MASTER_FAILED,
    ),
    "living master": (h.ElectMaster(broker_name=NAME), b"", R.CONTROLLER_MASTER_STILL_EXIST),
    "id of another": (
        h.ApplyBrokerId(
            applied_broker_id=1, register_check_code="127.0.0.1:1;1", cluster_name=CLUSTER, broker_name=NAME
        ),
        b"",
        R.CONTROLLER_BROKER_ID_INVALID,
    ),
    "check code without address": (
        h.ApplyBrokerId(applied_broker_id=4, register_check_code="x", cluster_name=CLUSTER, broker_name=NAME),
        b"",
        R.CONTROLLER_INVALID_REQUEST,
    ),
    "no names": (h.GetSyncStateData(), b"[]", R.CONTROLLER_INVALID_REQUEST),
    "many names": (h.GetSyncStateData(), b"[" + b'"a",' * 1000 + b'"a"]', R.CONTROLLER_INVALID_REQUEST),
    "a black-listed key": (h.UpdateControllerConfig(), b"configStorePath=/x", R.NO_PERMISSION),
    "a path": (h.UpdateControllerConfig(), b"controllerStorePath=/x", R.NO_PERMISSION),
    "an address": (h.UpdateControllerConfig(), b"etcdEndpoints=http://x:1", R.NO_PERMISSION),
    "unclean elections": (h.UpdateControllerConfig(), b"enableElectUncleanMaster=true", R.NO_PERMISSION),
    "a bad value": (h.UpdateControllerConfig(), b"scanInactiveMasterInterval=often", R.SYSTEM_ERROR),
    "a request of brokers": (h.GetBrokerEpochCache(), b"", R.REQUEST_CODE_NOT_SUPPORTED),
}


async def test_each_refusal_has_its_code_and_changes_nothing(controller: ControllerFixture) -> None:
    first, _ = await controller.group(2)
    third = await (await controller.broker()).join()
    await third.disconnect()
    before = await controller.info()

    for what, (request, body, code) in REFUSALS.items():
        answer = await first.ask(request, body)
        assert answer.code == code, what
        if code != R.CONTROLLER_MASTER_STILL_EXIST:
            assert answer.remark, what

    assert await controller.info() == before


async def test_nobody_can_be_elected(controller: ControllerFixture) -> None:
    first, second = await controller.group(2)
    third = await (await controller.broker()).join()
    await first.disconnect()
    await controller.until_master(2)
    await second.disconnect()
    info = await controller.until_master(None)

    assert info.master_epoch == 3, "each election has an epoch, also that of nobody"
    assert (await third.elect()).code == R.CONTROLLER_ELECT_MASTER_FAILED
    assert (await third.ask(h.ElectMaster(broker_name=NAME))).code == R.CONTROLLER_MASTER_NOT_AVAILABLE


# Elections


async def test_a_closed_connection_of_the_master_elects_another_at_once(controller: ControllerFixture) -> None:
    first, second, third = await controller.group(3)
    await second.heartbeat(max_offset=5)
    await third.heartbeat(max_offset=7)

    await first.disconnect()
    info = await controller.until_master(3)

    assert (info.master_epoch, info.sync_state_set_epoch) == (2, 3)
    assert [it.broker_id for it in info.in_sync_replicas] == [3]
    for broker in (second, third):
        await until(lambda broker=broker: len(broker.notices.received) == 1)  # type: ignore[misc]
    notice, members = second.notices.received[0]
    assert notice == h.NotifyBrokerRoleChanged(
        master_address=third.address, master_broker_id=3, sync_state_set_epoch=3, master_epoch=2
    )
    assert members == SyncStateSet([3], 3)


async def test_a_closed_connection_of_a_slave_changes_nothing(controller: ControllerFixture) -> None:
    _, _, third = await controller.group(3)

    await third.disconnect()

    info = await controller.info()
    assert (info.master_broker_id, info.master_epoch) == (1, 1)
    assert [it.alive for it in info.in_sync_replicas] == [True, True, False]


async def test_a_silent_master_is_replaced_after_its_timeout(controller: ControllerFixture) -> None:
    first, second, _ = await controller.group(3)
    await first.heartbeat(timeout_millis=10_000)
    await controller.clock.advance(9)
    await second.heartbeat()
    assert (await controller.info()).master_broker_id == 1

    await controller.clock.advance(6)
    info = await controller.until_master(2)

    assert info.master_epoch == 2


async def test_notices_can_be_turned_off(controller: ControllerFixture) -> None:
    await controller.call(h.UpdateControllerConfig(), b"notifyBrokerRoleChanged=false")
    first, second = await controller.group(2)
    await first.disconnect()
    await controller.until_master(2)

    assert second.notices.received == []


async def test_an_operator_designates_a_master(controller: ControllerFixture) -> None:
    _, second, third = await controller.group(3)

    reply = await controller.call(h.ElectMaster(broker_id=2, broker_name=NAME, designate_elect=True))

    assert (reply.fields.master_broker_id, reply.fields.master_epoch) == (2, 2)
    await until(lambda: len(second.notices.received) == len(third.notices.received) == 1)


async def test_a_restarted_master_needs_an_election(controller: ControllerFixture) -> None:
    first, *_ = await controller.group(1)
    reply = await first.register()
    assert reply.fields.master_broker_id is None

    answer = await first.elect()

    assert ext_text(answer.ext)["masterEpoch"] == "3"


async def test_removed_brokers_are_forgotten(controller: ControllerFixture) -> None:
    _, _, third = await controller.group(3)
    await third.disconnect()

    await controller.call(h.CleanBrokerData(broker_name=NAME, broker_controller_ids_to_clean="3"))

    info = await controller.info()
    assert [it.broker_id for it in info.in_sync_replicas] == [1, 2]


# Restarts


async def test_groups_survive_a_restart_and_masters_get_time_to_come_back(config: ControllerConfig) -> None:
    async with running(config) as controller:
        await controller.group(3)
        before = await controller.info()
    async with running(config) as controller:
        await controller.clock.advance(9)
        after = await controller.info()
        assert [it.broker_id for it in after.in_sync_replicas] == [1, 2, 3]
        assert (after.master_broker_id, after.master_epoch) == (1, before.master_epoch)
        survivor = await controller.broker()
        survivor.broker_id = 2
        await survivor.heartbeat()

        await controller.clock.advance(2)

        assert (await controller.until_master(2)).master_epoch == 2


async def test_a_group_without_living_brokers_keeps_its_epoch(config: ControllerConfig) -> None:
    async with running(config) as controller:
        await controller.group(1)
    async with running(config) as controller:
        await controller.clock.advance(60)

        assert (await controller.info()).master_epoch == 1


class FullDisk(RealDisk):
    is_full = False

    def write(self, path: Path, data: bytes) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write(path, data)


async def test_a_change_that_cannot_be_stored_is_not_answered_with_success(config: ControllerConfig) -> None:
    disk = FullDisk()
    async with running(config, disk=disk) as controller:
        first, second = await controller.group(2)
        disk.is_full = True
        with pytest.raises(AnswerError, match="unknown whether the change was stored"):
            await first.alter(1, master_epoch=1, set_epoch=2)
        assert len((await controller.info()).in_sync_replicas) == 2
        await first.disconnect()
        assert (await controller.info()).master_broker_id == 1
        disk.is_full = False

        await controller.clock.advance(5)
        await second.heartbeat()
        await controller.clock.advance(6)

        assert (await controller.until_master(2)).master_epoch == 2


# Limits


async def test_the_number_of_groups_is_limited(config: ControllerConfig) -> None:
    config.broker_group_nums_max = 2
    async with running(config) as controller:
        for name in ("a", "b"):
            await (await controller.broker(name)).join()

        with pytest.raises(AnswerError, match="brokerGroupNumsMax"):
            await (await controller.broker("c")).join()


async def test_the_number_of_brokers_in_a_group_is_limited(config: ControllerConfig) -> None:
    config.replica_nums_max = 2
    async with running(config) as controller:
        await controller.group(2)

        with pytest.raises(AnswerError, match="replicaNumsMax"):
            await (await controller.broker()).join()


async def test_the_number_of_heartbeats_is_limited(config: ControllerConfig) -> None:
    config.broker_nums_max = 2
    async with running(config) as controller:
        first, _ = await controller.group(2)

        with pytest.raises(AnswerError, match="brokerNumsMax"):
            await (await controller.broker()).join()
        await first.heartbeat()


# Configuration


async def test_settings_are_shown_changed_and_saved(controller: ControllerFixture, config: ControllerConfig) -> None:
    await controller.call(h.UpdateControllerConfig(), b"scanInactiveMasterInterval=1000\nunknown=1")
    shown = properties.parse((await controller.call(h.GetControllerConfig())).body.decode())

    assert (shown["scanInactiveMasterInterval"], shown["controllerType"]) == ("1000", "DLedger")
    assert "unknown" not in shown
    assert config.config_store_path is not None
    assert "scanInactiveMasterInterval=1000\n" in config.config_store_path.read_text()


async def test_without_a_file_changes_last_until_the_end(config: ControllerConfig) -> None:
    config.config_store_path = None
    async with running(config) as controller:
        await controller.call(h.UpdateControllerConfig(), b"scanInactiveMasterInterval=1000")

    assert config.scan_inactive_master_interval == 1000


# Policies and hostile input

KNOWN = {"brokerName": NAME, "clusterName": CLUSTER, "brokerAddress": "127.0.0.1:1", "brokerAddr": "127.0.0.1:1"}


async def test_every_request_in_every_form_is_refused_by_the_policy(config: ControllerConfig) -> None:
    policy = SwitchedPolicy(is_refusing=True)
    async with Controller(config, policies=[policy]) as server, await Peer.to(server.address) as peer:
        kinds = server.router.requests
        assert set(kinds) == {904, *range(1001, 1007), *range(1009, 1014)}
        for kind in kinds.values():
            await peer.send(b"".join(frames_of(kind, KNOWN, 1)))
            answers = await peer.answers(FORMS)
            assert {(answer.code, answer.remark) for answer in answers} == {(R.NO_PERMISSION, REFUSAL)}, kind

    assert policy.decoded == dict.fromkeys(kinds, FORMS)


async def test_a_heartbeat_of_a_java_broker_is_oneway(controller: ControllerFixture) -> None:
    await controller.group(1)
    fields = {"clusterName": CLUSTER, "brokerAddr": "127.0.0.1:1", "brokerName": NAME, "brokerId": "2"}
    async with await Peer.to(controller.address) as peer:
        await peer.send(encode(JSON, code=RequestCode.BROKER_HEARTBEAT, opaque=1, flag=2, ext=fields))
        await peer.send(encode(JSON, code=RequestCode.CONTROLLER_GET_METADATA_INFO, opaque=2))

        assert (await peer.answer()).opaque == 2
        assert set(controller.server.liveness.living(CLUSTER, NAME)) == {1, 2}
