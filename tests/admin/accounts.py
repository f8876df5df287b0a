"""Fake brokers with users and policies (5.3), and with access lists (4.x)."""

from kerolox.errors import AnswerError
from kerolox.remoting.router import Incoming, handles
from kerolox.wire.header import Empty
from kerolox.wire.headers import auth as a
from kerolox.wire.reply import Reply


class Accounts:
    """Stores users and policies as the bytes received."""

    def __init__(self) -> None:
        self.users: dict[str, bytes] = {}
        self.acls: dict[str, bytes] = {}
        self.filters: list[str | None] = []

    @handles(a.CreateUser)
    def create_user(self, request: Incoming[a.CreateUser]) -> Reply[Empty]:
        self.users[request.header.username] = request.body
        return Reply()

    @handles(a.UpdateUser)
    def update_user(self, request: Incoming[a.UpdateUser]) -> Reply[Empty]:
        self.users[request.header.username] = request.body
        return Reply()

    @handles(a.DeleteUser)
    def delete_user(self, request: Incoming[a.DeleteUser]) -> Reply[Empty]:
        del self.users[request.header.username]
        return Reply()

    @handles(a.GetUser)
    def get_user(self, request: Incoming[a.GetUser]) -> Reply[Empty]:
        return Reply(None, self.users.get(request.header.username, b""))

    @handles(a.ListUsers)
    def list_users(self, request: Incoming[a.ListUsers]) -> Reply[Empty]:
        self.filters.append(request.header.filter)
        return Reply(None, b"[" + b",".join(self.users.values()) + b"]" if self.users else b"")

    @handles(a.CreateAcl)
    def create_acl(self, request: Incoming[a.CreateAcl]) -> Reply[Empty]:
        self.acls[request.header.subject] = request.body
        return Reply()

    @handles(a.UpdateAcl)
    def update_acl(self, request: Incoming[a.UpdateAcl]) -> Reply[Empty]:
        self.acls[request.header.subject] = request.body
        return Reply()

    @handles(a.DeleteAcl)
    def delete_acl(self, request: Incoming[a.DeleteAcl]) -> Reply[Empty]:
        self.filters.append(request.header.resource)
        del self.acls[request.header.subject]
        return Reply()

    @handles(a.GetAcl)
    def get_acl(self, request: Incoming[a.GetAcl]) -> Reply[Empty]:
        return Reply(None, self.acls.get(request.header.subject, b""))

    @handles(a.ListAcls)
    def list_acls(self, request: Incoming[a.ListAcls]) -> Reply[Empty]:
        self.filters += [request.header.subject_filter, request.header.resource_filter]
        return Reply(None, b"[" + b",".join(self.acls.values()) + b"]" if self.acls else b"")


class AccessLists:
    """Stores accounts and white addresses."""

    def __init__(self) -> None:
        self.accounts: dict[str, a.UpdateAndCreateAclConfig] = {}
        self.white: a.UpdateGlobalWhiteAddrsConfig | None = None

    @handles(a.UpdateAndCreateAclConfig)
    def update(self, request: Incoming[a.UpdateAndCreateAclConfig]) -> Reply[Empty]:
        self.accounts[request.header.access_key] = request.header
        return Reply()

    @handles(a.DeleteAclConfig)
    def delete(self, request: Incoming[a.DeleteAclConfig]) -> Reply[Empty]:
        if self.accounts.pop(request.header.access_key, None) is None:
            raise AnswerError("it has been deleted failed", code=210)
        return Reply()

    @handles(a.UpdateGlobalWhiteAddrsConfig)
    def set_white(self, request: Incoming[a.UpdateGlobalWhiteAddrsConfig]) -> Reply[Empty]:
        self.white = request.header
        return Reply()

    @handles(a.GetBrokerClusterAclInfo)
    def versions(self, request: Incoming[a.GetBrokerClusterAclInfo]) -> Reply[a.AclVersion]:
        files = '{"/conf/plain_acl.yml":{"counter":3,"stateVersion":0,"timestamp":1700000000000}}'
        return Reply(
            a.AclVersion(
                version="{}",
                all_acl_file_version=files,
                broker_name="broker-a",
                broker_addr="",
                cluster_name="DefaultCluster",
            )
        )
