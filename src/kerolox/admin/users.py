"""Users of brokers, and what they may do; known to brokers of 5.3 and later.

Each broker keeps its own, so that all of a cluster are told. One of them is asked.
"""

from collections.abc import Sequence

from kerolox.admin.servers import Servers
from kerolox.runtime import fastjson
from kerolox.wire.bodies.auth import AclInfo, Policy, PolicyEntry, UserInfo
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import auth as a


class _Accounts:
    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def _tell(self, request: Request[Empty], body: bytes, cluster: str | None, broker: str | None) -> list[str]:
        masters = await self._servers.masters(cluster=cluster, broker=broker)
        return list(await self._servers.ask_brokers(masters, request, body))

    async def _ask(self, request: Request[Empty], cluster: str | None, broker: str | None) -> bytes:
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
        """Makes a user, and returns the names of the brokers that know it now."""
        user = UserInfo(username=username, password=password, user_type=_type(is_super))
        return await self._tell(a.CreateUser(username=username), user.encode(), cluster, broker)

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
        """Changes what is given of a user, and returns the names of the brokers that did."""
        user = UserInfo(
            username=username,
            password=password,
            user_type=None if is_super is None else _type(is_super),
            user_status=None if is_enabled is None else "enable" if is_enabled else "disable",
        )
        return await self._tell(a.UpdateUser(username=username), user.encode(), cluster, broker)

    async def delete(self, username: str, *, cluster: str | None = None, broker: str | None = None) -> list[str]:
        """Deletes a user with what it may do, and returns the names of the brokers that did."""
        return await self._tell(a.DeleteUser(username=username), b"", cluster, broker)

    async def find(self, username: str, *, cluster: str | None = None, broker: str | None = None) -> UserInfo | None:
        """Returns a user; None if there is none of this name."""
        body = await self._ask(a.GetUser(username=username), cluster, broker)
        return UserInfo.decode(body) if body else None

    async def matching(
        self, part: str | None = None, *, cluster: str | None = None, broker: str | None = None
    ) -> list[UserInfo]:
        """Returns all users, or those whose name contains a part."""
        body = await self._ask(a.ListUsers(filter=part), cluster, broker)
        return fastjson.decode(body, list[UserInfo]) if body else []


class Policies(_Accounts):
    """A subject is such as `User:somebody`, a resource such as `Topic:orders`."""

    async def create(
        self, subject: str, entries: Sequence[PolicyEntry], *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Allows a subject something, or denies it, and returns the names of the brokers that know it now."""
        return await self._tell(a.CreateAcl(subject=subject), _acl(subject, entries), cluster, broker)

    async def update(
        self, subject: str, entries: Sequence[PolicyEntry], *, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Changes what a subject may do with these resources, or adds it; what it may with others stays."""
        return await self._tell(a.UpdateAcl(subject=subject), _acl(subject, entries), cluster, broker)

    async def delete(
        self, subject: str, *, resource: str | None = None, cluster: str | None = None, broker: str | None = None
    ) -> list[str]:
        """Forgets what a subject may do, with one resource or with all."""
        return await self._tell(a.DeleteAcl(subject=subject, resource=resource), b"", cluster, broker)

    async def find(self, subject: str, *, cluster: str | None = None, broker: str | None = None) -> AclInfo | None:
        """Returns what a subject may do; None if nothing is said of it, NoPermission if there is no such user."""
        body = await self._ask(a.GetAcl(subject=subject), cluster, broker)
        return AclInfo.decode(body) if body else None

    async def matching(
        self,
        subject_part: str | None = None,
        resource_part: str | None = None,
        *,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[AclInfo]:
        """Returns what all subjects may do, or those whose name contains a part; the same of resources."""
        request = a.ListAcls(subject_filter=subject_part, resource_filter=resource_part)
        body = await self._ask(request, cluster, broker)
        return fastjson.decode(body, list[AclInfo]) if body else []


def _type(is_super: bool) -> str:
    return "Super" if is_super else "Normal"


def _acl(subject: str, entries: Sequence[PolicyEntry]) -> bytes:
    return AclInfo(subject=subject, policies=[Policy(entries=list(entries), policy_type="Custom")]).encode()
