"""`mqadmin` commands for the ACL policies of 5.3 brokers and later."""

from collections.abc import Iterable

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import broker_addresses, master_addresses
from kerolox.cli.admin.command import Call, Flag, Output, command, required
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.output import Table, Text
from kerolox.cli.admin.topics.topics import target_flags
from kerolox.wire.bodies.auth import AclInfo, PolicyEntry

_SINCE = "5.3.0"


def _entries(call: Call) -> list[PolicyEntry]:
    def parts(name: str) -> list[str]:
        return [part.strip() for part in (call.get(name) or "").split(",") if part.strip()]

    return [
        PolicyEntry(
            resource=resource,
            actions=parts("actions"),
            source_ips=parts("sourceIp") or None,
            decision=call["decision"],
        )
        for resource in parts("resources")
    ]


def _check(call: Call) -> None:
    """Refuse names without a type prefix such as `User:` or `Topic:`; brokers report only a system error over them."""
    values = [("subject", call["subject"], "User:alice")]
    values += [("resources", part.strip(), "Topic:orders") for part in call["resources"].split(",")]
    for flag, text, example in values:
        if ":" not in text and text != "*":
            raise InvalidUsage(f"--{flag} {text!r}: expected a type and a name, such as {example}")


def _policy_flags(verb: str) -> tuple[Flag, ...]:
    return (
        *target_flags(f"{verb} acl to which"),
        required("s", "subject", f"the subject of acl to {verb}."),
        required("r", "resources", f"the resources of acl to {verb}"),
        required("a", "actions", f"the actions of acl to {verb}"),
        required("d", "decision", f"the decision of acl to {verb}"),
        Flag("i", "sourceIp", f"the sourceIps of acl to {verb}"),
    )


@command("createAcl", "Create acl to cluster.", *_policy_flags("create"), since=_SINCE, check=_check)
async def create_acl(call: Call) -> Output:
    for address in await broker_addresses(call):
        await call.admin.policies.create(call["subject"], _entries(call), broker=address)
        yield Text(f"create acl to {address} success.\n", {"broker": address, "subject": call["subject"]})


@command("updateAcl", "Update acl to cluster.", *_policy_flags("update"), since=_SINCE, check=_check)
async def update_acl(call: Call) -> Output:
    for address in await broker_addresses(call):
        await call.admin.policies.update(call["subject"], _entries(call), broker=address)
        yield Text(f"update acl to {address} success.\n", {"broker": address, "subject": call["subject"]})


@command(
    "deleteAcl",
    "Delete acl from cluster.",
    *target_flags("delete acl from which"),
    required("s", "subject", "the subject of acl to delete."),
    Flag("r", "resources", "the resources of acl to delete"),
    warning="delete permissions of {subject}",
    since=_SINCE,
)
async def delete_acl(call: Call) -> Output:
    for address in await broker_addresses(call):
        await call.admin.policies.delete(call["subject"], resource=call.get("resources"), broker=address)
        yield Text(f"delete acl to {address} success.\n", {"broker": address, "deleted": call["subject"]})


@command(
    "getAcl",
    "Get acl from cluster.",
    Flag("b", "brokerAddr", "get acl for which broker", is_choice=True),
    Flag("c", "clusterName", "get acl for specified cluster", is_choice=True),
    required("s", "subject", "the subject of acl to get"),
    since=_SINCE,
)
async def get_acl(call: Call) -> Output:
    for address in await master_addresses(call):
        found = await call.admin.policies.find(call["subject"], broker=address)
        if found is not None:
            yield _policies([found])


@command(
    "listAcl",
    "List acl from cluster.",
    Flag("b", "brokerAddr", "list acl for which broker.", is_choice=True),
    Flag("c", "clusterName", "list acl for specified cluster.", is_choice=True),
    Flag("s", "subject", "the subject of acl to filter."),
    Flag("r", "resource", "the resource of acl to filter."),
    since=_SINCE,
)
async def list_acl(call: Call) -> Output:
    for address in await master_addresses(call):
        found = await call.admin.policies.matching(call.get("subject"), call.get("resource"), broker=address)
        if found:
            yield _policies(found)


def _policies(found: Iterable[AclInfo]) -> Table:
    rows: list[tuple[object, ...]] = []
    for acl in found:
        for policy in acl.policies:
            for it in policy.entries:
                lists = (_listed(it.actions), _listed(it.source_ips))
                rows.append((acl.subject, java_format.text(policy.policy_type), it.resource, *lists, it.decision))
        if not acl.policies:
            rows.append((acl.subject, "", "", "", "", ""))
    columns = ("#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision")
    return Table("%-16s  %-10s  %-22s  %-20s  %-24s  %-10s", columns, rows)


def _listed(parts: list[str] | None) -> str:
    return "null" if parts is None else f"[{', '.join(parts)}]"


@command(
    "copyAcl",
    "Copy acl to cluster.",
    required("f", "fromBroker", "the source broker that the acls copy from"),
    required("t", "toBroker", "the target broker that the acls copy to"),
    Flag("s", "subjects", "the subject list of acl to copy."),
    since=_SINCE,
)
async def copy_acl(call: Call) -> Output:
    source, target = call["fromBroker"], call["toBroker"]
    wanted = [part.strip() for part in (call.get("subjects") or "").split(",") if part.strip()]
    if wanted:
        # An unknown subject is an error before anything is copied.
        found = [await call.admin.policies.find(subject, broker=source) for subject in wanted]
    else:
        found = [*await call.admin.policies.matching(broker=source)]
    for acl in found:
        if acl is None or acl.subject is None:
            continue
        entries = [entry for policy in acl.policies for entry in policy.entries]
        if await call.admin.policies.find(acl.subject, broker=target) is None:
            await call.admin.policies.create(acl.subject, entries, broker=target)
        else:
            await call.admin.policies.update(acl.subject, entries, broker=target)
        yield Text(
            f"copy acl of {acl.subject} from {source} to {target} success.\n", {"copied": acl.subject, "to": target}
        )
