"""Scripts of all mqadmin account commands for brokers with ACL enabled, of 4.x and of 5.x."""

from __future__ import annotations

from tests.compat.broker_commands import ADDRESS, CLUSTER
from tests.compat.commands import Step

# Another broker with ACL enabled, the target of copies.
TARGET = "{target}"
# The names of all account commands of 5.x.
ACCOUNT_KINDS = ("User", "Acl")
ACCOUNT_VERBS = ("create", "update", "delete", "get", "list", "copy")


def acl_4x_steps() -> tuple[Step, ...]:
    """Commands for plain ACLs in a file (4.x)."""
    account = ("updateAclConfig", "-a", "rocketmq-alice", "-s", "alice-12345678")
    rights = ("-t", "orders=PUB|SUB,bills=DENY", "-g", "packers=SUB,others=DENY")
    return (
        _write_step(*account, "-b", ADDRESS),
        _write_step(*account, "-b", ADDRESS, *rights, "-i", "DENY", "-u", "SUB", "-m", "false", "-w", "192.0.2.1"),
        _write_step("updateAclConfig", "-a", "rocketmq-bob", "-s", "bob-12345678", "-c", CLUSTER, "-m", "true"),
        _write_step("updateAclConfig", "-a", "rocketmq-bob", "-s", "bob-87654321", "-c", CLUSTER),
        _write_step("updateAclConfig", "-a", "rocketmq-carol", "-s", "1234", "-b", ADDRESS),
        _write_step("updateAclConfig", "-a", "rocketmq-carol", "-s", "carol-12345678", "-b", ADDRESS, "-i", "PERHAPS"),
        _write_step(
            "updateAclConfig", "-a", "rocketmq-carol", "-s", "carol-12345678", "-b", ADDRESS, "-t", "x=PERHAPS"
        ),
        Step(("clusterAclConfigVersion", "-b", ADDRESS)),
        Step(("clusterAclConfigVersion", "-c", CLUSTER)),
        _write_step("updateGlobalWhiteAddr", "-b", ADDRESS, "-g", "192.0.2.1"),
        _write_step("updateGlobalWhiteAddr", "-c", CLUSTER, "-g", "192.0.2.1,192.0.2.2,198.51.100.*"),
        _write_step("updateGlobalWhiteAddr", "-b", ADDRESS, "-g", "192.0.2.1", "-p", "/nowhere/plain_acl.yml"),
        _write_step("updateGlobalWhiteAddr", "-b", ADDRESS, "-g", "nowhere"),
        _write_step("deleteAclConfig", "-b", ADDRESS, "-a", "rocketmq-alice"),
        _write_step("deleteAclConfig", "-b", ADDRESS, "-a", "rocketmq-alice"),
        _write_step("deleteAclConfig", "-c", CLUSTER, "-a", "rocketmq-bob"),
        _write_step("deleteAclConfig", "-b", ADDRESS, "-a", "rocketmq-nobody"),
    )


def acl_5x_steps() -> tuple[Step, ...]:
    """Commands for users and policies (5.x)."""
    return (*_help_steps(), *_user_steps(), *_policy_steps(), *_copy_steps(), *_delete_steps())


def _help_steps() -> tuple[Step, ...]:
    return tuple(Step((f"{verb}{what}", "-h")) for what in ACCOUNT_KINDS for verb in ACCOUNT_VERBS)


def _user_steps() -> tuple[Step, ...]:
    return (
        _write_step("createUser", "-b", ADDRESS, "-u", "alice", "-p", "alice-12345678"),
        _write_step("createUser", "-c", CLUSTER, "-u", "bob", "-p", "bob-12345678", "-t", "Super"),
        _write_step("createUser", "-b", ADDRESS, "-u", "alice", "-p", "alice-12345678"),
        _write_step("createUser", "-b", ADDRESS, "-u", "carol", "-p", "carol-12345678", "-t", "Normal"),
        _write_step("createUser", "-b", ADDRESS, "-u", "dave", "-p", "dave-12345678", "-t", "Odd"),
        # Java's tool has created this user; from here on both clusters have the same users again.
        _write_step("deleteUser", "-b", ADDRESS, "-u", "dave"),
        Step(("getUser", "-b", ADDRESS, "-u", "alice")),
        Step(("getUser", "-c", CLUSTER, "-u", "bob")),
        Step(("getUser", "-b", ADDRESS, "-u", "nobody")),
        Step(("getUser", "-c", CLUSTER, "-u", "nobody")),
        Step(("listUser", "-b", ADDRESS)),
        Step(("listUser", "-c", CLUSTER)),
        Step(("listUser", "-b", ADDRESS, "-f", "ali")),
        Step(("listUser", "-c", CLUSTER, "-f", "bo")),
        Step(("listUser", "-b", ADDRESS, "-f", "nobody")),
        Step(("listUser", "-c", CLUSTER, "-f", "nobody")),
        _write_step("updateUser", "-b", ADDRESS, "-u", "alice", "-p", "alice-87654321"),
        _write_step("updateUser", "-c", CLUSTER, "-u", "alice", "-t", "Super"),
        _write_step("updateUser", "-b", ADDRESS, "-u", "bob", "-t", "Normal", "-s", "disable"),
        _write_step("updateUser", "-b", ADDRESS, "-u", "alice", "-s", "asleep"),
        _write_step("updateUser", "-b", ADDRESS, "-u", "alice", "-t", "Odd"),
        _write_step("updateUser", "-u", "alice", "-b", ADDRESS),
        _write_step("updateUser", "-b", ADDRESS, "-u", "nobody", "-s", "disable"),
        Step(("listUser", "-b", ADDRESS)),
    )


def _policy_steps() -> tuple[Step, ...]:
    orders = ("-r", "Topic:orders", "-a", "Pub,Sub", "-d", "Allow")
    packers = ("-r", "Group:packers,Topic:bills*", "-a", "Sub", "-d", "Deny", "-i", "192.0.2.1,198.51.100.0/24")
    return (
        _write_step("createAcl", "-b", ADDRESS, "-s", "User:carol", *orders),
        _write_step("createAcl", "-c", CLUSTER, "-s", "User:bob", *packers),
        _write_step("createAcl", "-b", ADDRESS, "-s", "User:carol", *orders),
        _write_step("createAcl", "-b", ADDRESS, "-s", "User:nobody", *orders),
        _write_step("createAcl", "-b", ADDRESS, "-s", "carol", *orders),
        _write_step("createAcl", "-b", ADDRESS, "-s", "User:alice", "-r", "orders", "-a", "Pub", "-d", "Allow"),
        _write_step("createAcl", "-b", ADDRESS, "-s", "User:alice", "-r", "Topic:orders", "-a", "Eat", "-d", "Allow"),
        _write_step("createAcl", "-b", ADDRESS, "-s", "User:alice", "-r", "Topic:orders", "-a", "Pub", "-d", "Perhaps"),
        _write_step("updateAcl", "-b", ADDRESS, "-s", "User:carol", *packers),
        _write_step("updateAcl", "-c", CLUSTER, "-s", "User:bob", *orders),
        _write_step("updateAcl", "-b", ADDRESS, "-s", "User:nobody", *orders),
        Step(("getAcl", "-b", ADDRESS, "-s", "User:carol")),
        Step(("getAcl", "-c", CLUSTER, "-s", "User:bob")),
        Step(("getAcl", "-b", ADDRESS, "-s", "User:alice")),
        Step(("getAcl", "-b", ADDRESS, "-s", "User:nobody")),
        Step(("listAcl", "-b", ADDRESS)),
        Step(("listAcl", "-c", CLUSTER)),
        Step(("listAcl", "-b", ADDRESS, "-s", "User:bob")),
        Step(("listAcl", "-b", ADDRESS, "-r", "Topic:orders")),
        Step(("listAcl", "-b", ADDRESS, "-s", "User:nobody")),
    )


def _copy_steps() -> tuple[Step, ...]:
    return (
        _write_step("copyUser", "-f", ADDRESS, "-t", TARGET, "-u", "alice,bob"),
        _write_step("copyUser", "-f", ADDRESS, "-t", TARGET, "-u", "alice,nobody"),
        _write_step("copyUser", "-f", ADDRESS, "-t", TARGET),
        _write_step("copyAcl", "-f", ADDRESS, "-t", TARGET, "-s", "User:bob"),
        _write_step("copyAcl", "-f", ADDRESS, "-t", TARGET, "-s", "User:bob,User:nobody"),
        _write_step("copyAcl", "-f", ADDRESS, "-t", TARGET),
        Step(("listUser", "-b", TARGET)),
        Step(("listAcl", "-b", TARGET)),
    )


def _delete_steps() -> tuple[Step, ...]:
    return (
        _write_step("deleteAcl", "-b", ADDRESS, "-s", "User:carol", "-r", "Group:packers"),
        _write_step("deleteAcl", "-b", ADDRESS, "-s", "User:carol", "-r", "Topic:nothing"),
        Step(("getAcl", "-b", ADDRESS, "-s", "User:carol")),
        _write_step("deleteAcl", "-c", CLUSTER, "-s", "User:carol"),
        _write_step("deleteAcl", "-b", ADDRESS, "-s", "User:nobody"),
        Step(("listAcl", "-c", CLUSTER)),
        _write_step("deleteUser", "-b", ADDRESS, "-u", "alice"),
        _write_step("deleteUser", "-c", CLUSTER, "-u", "bob"),
        _write_step("deleteUser", "-b", ADDRESS, "-u", "nobody"),
        Step(("listUser", "-c", CLUSTER)),
        Step(("listAcl", "-b", ADDRESS)),
    )


def _write_step(*arguments: str) -> Step:
    return Step(arguments, reads=False)
