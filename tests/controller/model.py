"""A model of brokers with abstract logs around the controller's real rules, for random runs.

Controllers decide with `kerolox.controller.state` and store by compare-and-swap; the rest is abstract. A log is a list
of (epoch, number). A master appends, its slaves copy, and an entry is acknowledged when every member of the old and
the new sync state set holds it. Requests and answers are delayed, repeated and lost; brokers and controllers crash;
a disk is emptied; a controller may take any broker for alive or dead. A run raises Violation if it breaks a promise.

`Fault` lists ways to break the rules on purpose, each of which the model must find.
"""

import random
from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from kerolox.controller import state
from kerolox.controller.state import BrokerGroup, Decision, LiveBroker
from kerolox.wire.bodies.controller import SyncStateSet
from kerolox.wire.headers import controller as h

NAME, CLUSTER = "broker-a", "C"
STEPS_MAX = 300
IN_FLIGHT_MAX = 20
Entry = tuple[int, int]


class Fault(Enum):
    UNCLEAN_ELECTION = "a broker outside the set is elected if no member lives"
    OUTSIDE_THE_SET = "the living broker with the longest log is elected, member or not"
    EPOCH_NOT_INCREASED = "an election keeps the epoch"
    SET_SHRUNK_LOCALLY = "the master stops waiting for a slave before the controller agrees"
    SET_EXPANDED_LATE = "the master waits for a new member only when it knows that the controller has agreed"
    LOST_ANSWER_IS_REFUSAL = "the master forgets a change of the set whose answer is lost"
    COMPARE_AND_SWAP_IGNORED = "a controller overwrites what another has stored meanwhile"
    ANSWERED_BEFORE_STORED = "a controller answers, and then loses the change in a crash"
    EMPTIED_DISK_COUNTS = "a broker keeps its id after its disk was emptied"
    RESTARTED_MASTER_KEEPS_EPOCH = "a master that restarts goes on in its epoch"
    OLD_MASTER_CHANGES_SET = "the set is changed without a look at the epochs of the request"
    REPORTED_BEFORE_SYNCED = "a slave reports what a crash may still take from it"
    NO_TRUNCATION = "a slave keeps what the new master does not have"
    OLD_EPOCH_OBEYED = "a broker obeys a notice with an older epoch"


class Violation(AssertionError):
    """A promise was broken."""


class Broker:
    __slots__ = (
        "aligned",
        "broker_id",
        "confirm",
        "epoch",
        "epoch_start",
        "following",
        "is_master",
        "is_up",
        "log",
        "members",
        "pending",
        "reported",
        "set_epoch",
        "synced",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        # Durable, `log` only up to `synced`.
        self.log: list[Entry] = []
        self.synced = 0
        self.epoch = 0
        self.is_up = True
        self.forget()

    def forget(self) -> None:
        """Lose what is in memory."""
        self.is_master = False
        self.following: int | None = None
        # Whether its log has been cut to what it has in common with the master's.
        self.aligned = False
        # Of a master: how far each slave holds the log, the set, and a change of it that was asked for.
        self.reported: dict[int, int] = {}
        self.members: frozenset[int] = frozenset()
        self.set_epoch = 0
        self.pending: frozenset[int] | None = None
        self.epoch_start = 0
        self.confirm = 0


class Model:
    def __init__(self, seed: int, fault: Fault | None = None, *, checks_rules: bool = True) -> None:
        """Without `checks_rules`, only the loss of acknowledged entries is a violation."""
        self.fault = fault
        self._checks_rules = checks_rules
        self._random = random.Random(seed)
        self._chance = self._random.random
        self.stored: BrokerGroup | None = None
        self.version = 0
        self._previous: BrokerGroup | None = None
        # What each of two controllers takes for the stored value.
        self._caches: list[tuple[BrokerGroup | None, int]] = [(None, 0), (None, 0)]
        self.brokers: dict[int, Broker] = {}
        self.acknowledged: list[Entry] = []
        self.masters: dict[int, int] = {}
        self._number = 0
        self._requests: list[tuple[Any, ...]] = []
        self._answers: list[tuple[Any, ...]] = []
        # Changes of the set that were asked for, of which copies may still be under way.
        self._altered: list[tuple[Any, ...]] = []
        self._has_wiped = False
        for number in (1, 2, 3):
            self._join(number)
        self._decide(0, lambda group: self._elect(group, 1, False, {}))
        for number in (1, 2, 3):
            self._inform(number, self.stored)

    def _join(self, number: int) -> None:
        request = h.ApplyBrokerId(
            applied_broker_id=number,
            register_check_code=f"10.0.0.{number}:10911;{number}",
            cluster_name=CLUSTER,
            broker_name=NAME,
        )
        self._decide(0, lambda group: state.apply_broker_id(group, request))
        self.brokers[number] = Broker(number)

    def run(self) -> None:
        """Take random steps; Violation if a promise is broken."""
        for step in self._random.choices(STEPS, cum_weights=WEIGHTS, k=STEPS_MAX):
            step(self)

    # Controllers

    def _decide(self, number: int, decide: Callable[[BrokerGroup | None], Decision[Any]]) -> Decision[Any]:
        while True:
            before, version = self._caches[number]
            decision = decide(before)
            if decision.group is before:
                return decision
            if version != self.version and self.fault is not Fault.COMPARE_AND_SWAP_IGNORED:
                self._caches[number] = (self.stored, self.version)
                continue
            assert decision.group is not None
            if self._checks_rules:
                self._check_change(self.stored, decision.group)
            self._previous, self.stored, self.version = self.stored, decision.group, self.version + 1
            self._caches[number] = (self.stored, self.version)
            return decision

    def _check_change(self, before: BrokerGroup | None, after: BrokerGroup) -> None:
        if after.master is not None:
            if after.master not in after.sync_state_set:
                raise Violation(f"the set {set(after.sync_state_set)} lacks the master {after.master}")
            if self.masters.setdefault(after.master_epoch, after.master) != after.master:
                raise Violation(f"epoch {after.master_epoch} has two masters")
        if before is None:
            return
        if (after.master_epoch, after.sync_state_set_epoch) < (before.master_epoch, before.sync_state_set_epoch):
            raise Violation("epochs do not grow")
        if after.sync_state_set != before.sync_state_set and after.sync_state_set_epoch <= before.sync_state_set_epoch:
            raise Violation("the set changes without its epoch")
        if after.master not in (None, before.master):
            if after.master_epoch <= before.master_epoch:
                raise Violation("the master changes without its epoch")
            if before.sync_state_set and after.master not in before.sync_state_set:
                raise Violation(f"{after.master} is elected, which is not in {set(before.sync_state_set)}")

    def _living(self) -> dict[int, LiveBroker]:
        chance = self._chance
        return {
            number: LiveBroker(broker.epoch, len(broker.log))
            for number, broker in self.brokers.items()
            if chance() < (0.92 if broker.is_up else 0.1)
        }

    def _handle(self, number: int, request: tuple[Any, ...]) -> None:
        """Answer a request, unless the controller crashes after it has stored the decision."""
        kind, sender = request[0], request[1]
        if kind == "get":
            self._inform(sender, self._caches[number][0])
            return
        living = self._living()
        if kind == "alter":
            decision = self._decide(number, lambda group: self._alter(group, request, living))
            self._answer(("altered", sender, decision.reply.code, *request[2:]))
        elif kind == "register":
            decision = self._decide(number, lambda group: self._register(group, sender, living))
            self._inform(sender, decision.group)
        else:
            decision = self._decide(number, lambda group: self._elect(group, sender, request[2], living))
            self._inform(sender, decision.group)
            if decision.role_change is not None:
                for other in living:
                    self._inform(other, decision.group)
        if self.fault is Fault.ANSWERED_BEFORE_STORED and self._chance() < 0.1:
            self.stored = self._previous
            self._caches = [(self.stored, self.version)] * 2

    def _elect(
        self, group: BrokerGroup | None, asking: int, is_designated: bool, living: dict[int, LiveBroker]
    ) -> Decision[Any]:
        request = h.ElectMaster(broker_id=asking, broker_name=NAME, designate_elect=is_designated)
        seen = group
        if self.fault is Fault.OUTSIDE_THE_SET and group is not None and group.sync_state_set:
            seen = msgspec.structs.replace(group, sync_state_set=frozenset(group.replicas))
        is_unclean = self.fault is Fault.UNCLEAN_ELECTION
        decision = state.elect_master(seen, request, living, is_unclean_allowed=is_unclean)
        if decision.group is seen:
            return Decision(group, decision.reply)
        assert group is not None
        assert decision.group is not None
        if self.fault is Fault.EPOCH_NOT_INCREASED:
            after = msgspec.structs.replace(decision.group, master_epoch=max(1, group.master_epoch))
            return Decision(after, decision.reply, decision.role_change)
        return decision

    def _register(self, group: BrokerGroup | None, broker_id: int, living: dict[int, LiveBroker]) -> Decision[Any]:
        request = h.RegisterBrokerToController(
            broker_id=broker_id,
            cluster_name=CLUSTER,
            broker_name=NAME,
            broker_address=f"10.0.0.{broker_id}:10911",
        )
        decision = state.register_broker(group, request, living)
        if self.fault is Fault.RESTARTED_MASTER_KEEPS_EPOCH:
            return Decision(group, decision.reply)
        return decision

    def _alter(
        self, group: BrokerGroup | None, request: tuple[Any, ...], living: dict[int, LiveBroker]
    ) -> Decision[Any]:
        _, sender, epoch, members, set_epoch = request
        if self.fault is Fault.OLD_MASTER_CHANGES_SET and group is not None:
            epoch, set_epoch = group.master_epoch, group.sync_state_set_epoch
        header = h.AlterSyncStateSet(master_broker_id=sender, broker_name=NAME, master_epoch=epoch)
        return state.alter_sync_state_set(group, header, SyncStateSet(list(members), set_epoch), living)

    def _inform(self, broker_id: int, group: BrokerGroup | None) -> None:
        if group is not None:
            self._answer(
                (
                    "info",
                    broker_id,
                    group.master,
                    group.master_epoch,
                    group.sync_state_set,
                    group.sync_state_set_epoch,
                )
            )

    def _answer(self, answer: tuple[Any, ...]) -> None:
        if len(self._answers) < IN_FLIGHT_MAX:
            self._answers.append(answer)
        else:
            self._lose(answer)

    def _ask(self, request: tuple[Any, ...]) -> None:
        if len(self._requests) < IN_FLIGHT_MAX:
            self._requests.append(request)

    # Brokers

    def _any(self) -> Broker:
        return list(self.brokers.values())[self._below(len(self.brokers))]

    def _below(self, limit: int) -> int:
        # Faster than `randrange`, of which a run would need hundreds.
        return int(self._chance() * limit)

    def _become_informed(self, broker: Broker, info: tuple[Any, ...]) -> None:
        _, _, master, epoch, members, set_epoch = info
        is_newer = epoch > broker.epoch or (self.fault is Fault.OLD_EPOCH_OBEYED and epoch != broker.epoch)
        if is_newer:
            self._change_role(broker, master, epoch, members, set_epoch)
        elif epoch < broker.epoch or master is None:
            return
        elif master == broker.broker_id:
            if broker.is_master:
                if set_epoch > broker.set_epoch:
                    broker.members, broker.set_epoch, broker.pending = members, set_epoch, None
            elif self.fault in (Fault.RESTARTED_MASTER_KEEPS_EPOCH, Fault.EPOCH_NOT_INCREASED):
                self._change_role(broker, master, epoch, members, set_epoch)
        elif broker.following is None and not broker.is_master:
            broker.following, broker.aligned = master, False
        elif self.fault is Fault.EPOCH_NOT_INCREASED and broker.following != master:
            self._change_role(broker, master, epoch, members, set_epoch)

    def _change_role(
        self, broker: Broker, master: int | None, epoch: int, members: frozenset[int], set_epoch: int
    ) -> None:
        broker.forget()
        # The epoch is durable before the first entry of the epoch is written.
        broker.epoch = epoch
        if master == broker.broker_id:
            broker.is_master = True
            broker.members, broker.set_epoch = members, set_epoch
            broker.epoch_start = len(broker.log)
            broker.synced = len(broker.log)
            assert self.stored is not None
            is_newest = epoch >= self.stored.master_epoch
            if is_newest and broker.log[: len(self.acknowledged)] != self.acknowledged:
                raise Violation(
                    f"broker {master} is master of epoch {epoch} without acknowledged entries: {broker.log}, not "
                    f"{self.acknowledged}"
                )
        else:
            broker.following = master

    def _acknowledge(self, broker: Broker) -> None:
        """Acknowledge what every member of the old and the new set holds, if there are at least two copies."""
        if len(broker.members) < 2:
            return
        members = broker.members if broker.pending is None else broker.members | broker.pending
        if broker.pending is not None:
            if self.fault is Fault.SET_SHRUNK_LOCALLY:
                members = broker.pending
            elif self.fault is Fault.SET_EXPANDED_LATE:
                members = broker.members
        reported = broker.reported
        end = broker.synced
        for member in members:
            if member != broker.broker_id:
                end = min(end, reported.get(member, 0))
        broker.confirm = max(broker.confirm, end)
        done = self.acknowledged
        if end > len(done):
            if broker.log[: len(done)] != done:
                raise Violation(f"{broker.log[:end]} is acknowledged after {done}")
            done.extend(broker.log[len(done) : end])

    # Steps

    def write(self) -> None:
        broker = self._any()
        if broker.is_up and broker.is_master:
            self._number += 1
            broker.log.append((broker.epoch, self._number))
            if self._chance() < 0.6:
                broker.synced = len(broker.log)

    def sync(self) -> None:
        broker = self._any()
        if broker.is_up:
            broker.synced = len(broker.log)
            if broker.is_master:
                self._acknowledge(broker)

    def replicate(self) -> None:
        """A slave copies some entries, after it has cut its log to what it has in common with the master's."""
        for slave in self.brokers.values():
            if not slave.is_up or slave.following is None or self._chance() < 0.3:
                continue
            master = self.brokers.get(slave.following)
            if master is None or not master.is_up or not master.is_master or master.epoch != slave.epoch:
                continue
            if not slave.aligned:
                slave.aligned = True
                common = _common(slave.log, master.log)
                if self.fault is not Fault.NO_TRUNCATION:
                    del slave.log[common:]
                    slave.synced = min(slave.synced, common)
            slave.log += master.log[len(slave.log) : len(slave.log) + 3]
            if self.fault is not Fault.REPORTED_BEFORE_SYNCED:
                slave.synced = len(slave.log)
            master.reported[slave.broker_id] = min(len(slave.log), len(master.log))
            self._acknowledge(master)

    def propose(self) -> None:
        """A master asks for another set, or repeats a request without answer."""
        for master in self.brokers.values():
            if not master.is_up or not master.is_master:
                continue
            if master.pending is None:
                caught_up = [
                    number
                    for number, held in master.reported.items()
                    if number not in master.members and held >= max(master.epoch_start, master.confirm)
                ]
                others = [number for number in master.members if number != master.broker_id]
                if caught_up and (not others or self._chance() < 0.75):
                    master.pending = master.members | {caught_up[self._below(len(caught_up))]}
                elif others and self._chance() < 0.3:
                    master.pending = master.members - {others[self._below(len(others))]}
            if master.pending is not None:
                request = ("alter", master.broker_id, master.epoch, master.pending, master.set_epoch)
                self._ask(request)
                self._altered.append(request)

    def repeat(self) -> None:
        """A copy of an old request arrives."""
        if self._altered:
            self._ask(self._altered[self._below(len(self._altered))])

    def poll(self) -> None:
        broker = self._any()
        if broker.is_up:
            self._ask(("get", broker.broker_id))

    def ask_for_election(self) -> None:
        broker = self._any()
        if broker.is_up:
            self._ask(("elect", broker.broker_id, False))

    def designate(self) -> None:
        self._ask(("elect", self._any().broker_id, True))

    def elect_by_controller(self) -> None:
        self._handle(self._below(2), ("elect", h.NO_BROKER_ID, False))

    def process(self) -> None:
        """A controller handles some request that is under way, which may be there a second time."""
        for _ in range(min(3, len(self._requests))):
            at = self._below(len(self._requests))
            is_repeated = self._chance() < 0.25
            request = self._requests[at] if is_repeated else self._requests.pop(at)
            self._handle(0 if self._chance() < 0.7 else 1, request)

    def deliver(self) -> None:
        """Some answer arrives, or is lost."""
        for _ in range(min(4, len(self._answers))):
            answer = self._answers.pop(self._below(len(self._answers)))
            broker = self.brokers.get(answer[1])
            if broker is None or not broker.is_up or self._chance() < 0.15:
                self._lose(answer)
            elif answer[0] == "info":
                self._become_informed(broker, answer)
            else:
                _, _, code, epoch, members, set_epoch = answer
                if code == 0 and broker.is_master and (epoch, set_epoch) == (broker.epoch, broker.set_epoch):
                    broker.members, broker.set_epoch, broker.pending = members, set_epoch + 1, None

    def _lose(self, answer: tuple[Any, ...]) -> None:
        broker = self.brokers.get(answer[1])
        if self.fault is Fault.LOST_ANSWER_IS_REFUSAL and answer[0] == "altered" and broker is not None:
            broker.pending = None

    def crash(self) -> None:
        """A broker crashes, and loses what was not synced."""
        broker = self._any()
        if broker.is_up:
            broker.is_up = False
            broker.forget()
            del broker.log[broker.synced :]

    def restart(self) -> None:
        for broker in self.brokers.values():
            if not broker.is_up and self._chance() < 0.7:
                broker.is_up = True
                self._ask(("register", broker.broker_id))

    def restart_controller(self) -> None:
        self._caches[self._below(2)] = (self.stored, self.version)

    def empty_disk(self) -> None:
        """A broker loses its disk, once per run, and with it its id."""
        if self._has_wiped or self._chance() < 0.6:
            return
        self._has_wiped = True
        broker = self._any()
        if self.fault is Fault.EMPTIED_DISK_COUNTS:
            self.brokers[broker.broker_id] = Broker(broker.broker_id)
            return
        del self.brokers[broker.broker_id]
        assert self.stored is not None
        self._caches[0] = (self.stored, self.version)
        self._join(self.stored.next_broker_id)


def _common(one: list[Entry], other: list[Entry]) -> int:
    """Return the length up to which two logs agree, as far as their epochs tell."""
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine[0] != theirs[0]:
            return at
    return min(len(one), len(other))


_WEIGHTED: dict[Callable[[Model], None], int] = {
    Model.write: 16,
    Model.sync: 5,
    Model.replicate: 18,
    Model.propose: 12,
    Model.repeat: 2,
    Model.poll: 6,
    Model.ask_for_election: 5,
    Model.designate: 1,
    Model.elect_by_controller: 4,
    Model.process: 16,
    Model.deliver: 16,
    Model.crash: 2,
    Model.restart: 6,
    Model.restart_controller: 1,
    Model.empty_disk: 1,
}
STEPS = list(_WEIGHTED)
WEIGHTS = [sum(list(_WEIGHTED.values())[: number + 1]) for number in range(len(STEPS))]


def first_violation(fault: Fault | None, runs: int, *, checks_rules: bool = True) -> tuple[int, str] | None:
    """Return the seed of the first run that breaks a promise, and which; None if none does."""
    for seed in range(runs):
        try:
            Model(seed, fault, checks_rules=checks_rules).run()
        except Violation as violation:
            return seed, str(violation)
    return None
