"""Requests about users and ACLs: those of 5.3 and later, then the plain ACLs of 4.x."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request


class CreateUser(Request[Empty], code=RequestCode.AUTH_CREATE_USER):
    """Request body: UserInfo."""

    username: str


class UpdateUser(Request[Empty], code=RequestCode.AUTH_UPDATE_USER):
    """Request body: UserInfo."""

    username: str


class DeleteUser(Request[Empty], code=RequestCode.AUTH_DELETE_USER):
    username: str


class GetUser(Request[Empty], code=RequestCode.AUTH_GET_USER):
    """Response body: UserInfo; empty if the user does not exist."""

    username: str


class ListUsers(Request[Empty], code=RequestCode.AUTH_LIST_USER):
    """Response body: array of UserInfo; empty if no user matches."""

    filter: str | None = None


class CreateAcl(Request[Empty], code=RequestCode.AUTH_CREATE_ACL):
    """Request body: AclInfo. A subject has the form `User:<name>`."""

    subject: str


class UpdateAcl(Request[Empty], code=RequestCode.AUTH_UPDATE_ACL):
    """Request body: AclInfo."""

    subject: str


class DeleteAcl(Request[Empty], code=RequestCode.AUTH_DELETE_ACL):
    subject: str
    policy_type: str | None = None
    resource: str | None = None


class GetAcl(Request[Empty], code=RequestCode.AUTH_GET_ACL):
    """Response body: AclInfo; empty if the subject has no ACL."""

    subject: str


class ListAcls(Request[Empty], code=RequestCode.AUTH_LIST_ACL):
    """Response body: array of AclInfo; empty if none matches."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class UpdateAndCreateAclConfig(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_ACL_CONFIG):
    """Writes one account to plain_acl.yml (4.x). Permissions are comma-separated, for example `orders=PUB|SUB`."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAclConfig(Request[Empty], code=RequestCode.DELETE_ACL_CONFIG):
    access_key: str


class UpdateGlobalWhiteAddrsConfig(Request[Empty], code=RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG):
    """Sets the comma-separated addresses that need no access key."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class AclVersion(Header, kw_only=True):
    """`all_acl_file_version` is JSON: ACL file path → DataVersion."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class GetBrokerClusterAclInfo(Request[AclVersion], code=RequestCode.GET_BROKER_CLUSTER_ACL_INFO):
    pass
