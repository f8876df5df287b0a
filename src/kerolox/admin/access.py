"""The access lists of brokers of 4.x, which keep accounts in files; those of 5.3 and later have users and policies."""

from collections.abc import Mapping, Sequence

from kerolox.admin.errors import AccountRefused
from kerolox.admin.servers import Servers
from kerolox.errors import AnswerError
from kerolox.runtime import fastjson
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.header import Empty, Request
from kerolox.wire.headers import auth as a

# By these codes brokers of 5.x mean something else.
_FAILURES = {
    209: "UPDATE_AND_CREATE_ACL_CONFIG_FAILED",
    210: "DELETE_ACL_CONFIG_FAILED",
    211: "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED",
}


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
        """Has a broker keep an account. Permissions are DENY, PUB, SUB or PUB|SUB."""
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
        await self._tell(broker, request)

    async def delete(self, broker: str, access_key: str) -> None:
        """Has a broker forget an account."""
        await self._tell(broker, a.DeleteAclConfig(access_key=access_key))

    async def set_white_addresses(self, broker: str, addresses: Sequence[str], *, file: str | None = None) -> None:
        """Says from where a broker lets everybody in; in one of its files, if it has several."""
        request = a.UpdateGlobalWhiteAddrsConfig(global_white_addrs=",".join(addresses), acl_file_full_path=file)
        await self._tell(broker, request)

    async def versions(self, broker: str) -> tuple[str, str, dict[str, DataVersion]]:
        """Returns the names of the cluster and of the broker, and the version of each of its files by path."""
        reply = await self._servers.call(await self._servers.address(broker), a.GetBrokerClusterAclInfo())
        fields = reply.fields
        files = fastjson.decode((fields.all_acl_file_version or "{}").encode(), dict[str, DataVersion])
        return fields.cluster_name, fields.broker_name, files

    async def _tell(self, broker: str, request: Request[Empty]) -> None:
        try:
            await self._servers.call(await self._servers.address(broker), request)
        except AnswerError as error:
            if error.code not in _FAILURES:
                raise
            raise AccountRefused(f"{error.remark} ({_FAILURES[error.code]}, {error.code})") from error


def _perms(perms: Mapping[str, str] | None) -> str | None:
    return None if perms is None else ",".join(f"{name}={perm}" for name, perm in perms.items())
