"""Users and policies of brokers since 5.3, and the access lists of 4.x brokers (plain_acl.yml).

Each broker keeps its own. Changes go to all masters of a cluster, queries to one of them.
"""

from collections.abc import Mapping, Sequence

from kerolox.admin.errors import AccountRefused
from kerolox.admin.targets import Servers
from kerolox.errors import AnswerError
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.auth import AclInfo, Policy, PolicyEntry, UserInfo
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import auth as a

# Codes of 4.x brokers that mean something else on 5.x brokers.
_FAILURES = {
    209: "UPDATE_AND_CREATE_ACL_CONFIG_FAILED",
    210: "DELETE_ACL_CONFIG_FAILED",
    211: "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
}


class _Accounts:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def _change(self, request: Request[Empty], body: bytes, cluster: str | None, broker: str | None) -> list[str]:
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return list(await self._servers.ask_brokers(masters, request, body))

    async def _query(self, request: Request[Empty], cluster: str | None, broker: str | None) -> bytes:
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return (await self._servers.first(masters, lambda address: self._servers.call(address, request))).body


class Users(_Accounts):
    async def create(
        self,
        username: str,
        password: str,
        *,
        is_super: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Create a user; return the names of the brokers."""
        user = UserInfo(username=username, password=password, user_type=_type(is_super))
        return await self._change(a.CreateUser(username=username), user.encode(), cluster, broker)

    async def update(
        self,
        username: str,
        *,
        password: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Change the given properties of a user; return the names of the brokers."""
        user = UserInfo(
            username=username,
            password=password,
            user_type=None if is_super is None else _type(is_super),
            user_status=None if is_enabled is None else "enable" if is_enabled else "disable",
        )
        return await self._change(a.UpdateUser(username=username), user.encode(), cluster, broker)

    async def delete(self, username: str, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Delete a user and its policies; return the names of the brokers."""
        return await self._change(a.DeleteUser(username=username), b"", cluster, broker)

    async def find(self, username: str, *, cluster: str | None = None, broker: str | None = None) -> UserInfo | None:
        """Return a user; None if it does not exist."""
        body = await self._query(a.GetUser(username=username), cluster, broker)
        return UserInfo.decode(body) if body else None

    async def matching(
        self, part: str | None = None, *, cluster: str | None = None, broker: str | None = None
    ) -> list[UserInfo]:
        """Return all users, or those whose name contains `part`."""
        body = await self._query(a.ListUsers(filter=part), cluster, broker)
        return fastjson.decode(body, list[UserInfo]) if body else []


class Policies(_Accounts):
    """Policies of subjects such as `User:alice` for resources such as `Topic:orders`."""

    async def create(
        self, subject: str, entries: Sequence[PolicyEntry], *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Create policies of a subject; return the names of the brokers."""
        return await self._change(a.CreateAcl(subject=subject), _acl(subject, entries), cluster, broker)

    async def update(
        self, subject: str, entries: Sequence[PolicyEntry], *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Add or replace the policies of a subject for these resources; those for other resources stay."""
        return await self._change(a.UpdateAcl(subject=subject), _acl(subject, entries), cluster, broker)

    async def delete(
        self, subject: str, *, resource: str | None = None, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Delete the policies of a subject, for one resource or all."""
        return await self._change(a.DeleteAcl(subject=subject, resource=resource), b"", cluster, broker)

    async def find(self, subject: str, *, cluster: str | None = None, broker: str | None = None) -> AclInfo | None:
        """Return the policies of a subject; None if it has none. Raises NoPermission if the user does not exist."""
        body = await self._query(a.GetAcl(subject=subject), cluster, broker)
        return AclInfo.decode(body) if body else None

    async def matching(
        self,
        subject_part: str | None = None,
        resource_part: str | None = None,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[AclInfo]:
        """Return the policies of all subjects, or of those that contain `subject_part`; likewise for resources."""
        request = a.ListAcls(subject_filter=subject_part, resource_filter=resource_part)
        body = await self._query(request, cluster, broker)
        return fastjson.decode(body, list[AclInfo]) if body else []


class AccessLists:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def update(
        self,
        broker: str,
        access_key: str,
        secret_key: str,
        *,
        is_admin: bool = False,
        white_address: str | None = None,
        default_topic_perm: str | None = None,
        default_group_perm: str | None = None,
        topic_perms: Mapping[str, str] | None = None,
        group_perms: Mapping[str, str] | None = None,
    ) -> None:
        """Create or replace an account on a broker. Permissions are DENY, PUB, SUB or PUB|SUB."""
        request = a.UpdateAndCreateAclConfig(
            access_key=access_key,
            secret_key=secret_key,
            white_remote_address=white_address,
            admin=is_admin,
            default_topic_perm=default_topic_perm,
            default_group_perm=default_group_perm,
            topic_perms=_perms(topic_perms),
            group_perms=_perms(group_perms),
        )
        await self._change(broker, request)

    async def delete(self, broker: str, access_key: str) -> None:
        """Delete an account from a broker."""
        await self._change(broker, a.DeleteAclConfig(access_key=access_key))

    async def set_white_addresses(self, broker: str, addresses: Sequence[str], *, file: str | None = None) -> None:
        """Set the global white list of addresses of a broker, in one of its files if it has several."""
        request = a.UpdateGlobalWhiteAddrsConfig(global_white_addrs=",".join(addresses), acl_file_full_path=file)
        await self._change(broker, request)

    async def versions(self, broker: str) -> tuple[str, str, dict[str, DataVersion]]:
        """Return the names of the cluster and the broker, and path → version of its access list files."""
        reply = await self._servers.call(await self._servers.address(broker), a.GetBrokerClusterAclInfo())
        fields = reply.fields
        files = fastjson.decode((fields.all_acl_file_version or "{}").encode(), dict[str, DataVersion])
        return fields.cluster_name, fields.broker_name, files

    async def _change(self, broker: str, request: Request[Empty]) -> None:
        try:
            await self._servers.call(await self._servers.address(broker), request)
        except AnswerError as error:
            if error.code not in _FAILURES:
                raise
            raise AccountRefused(f"{error.remark} ({_FAILURES[error.code]}, {error.code})") from error


def _perms(perms: Mapping[str, str] | None) -> str | None:
    return None if perms is None else ",".join(f"{name}={perm}" for name, perm in perms.items())


def _type(is_super: bool) -> str:
    return "Super" if is_super else "Normal"


def _acl(subject: str, entries: Sequence[PolicyEntry]) -> bytes:
    return AclInfo(subject=subject, policies=[Policy(entries=list(entries), policy_type="Custom")]).encode()
