"""Users of a broker, and what they may do: those of 5.3 and later, then the access lists of 4.x."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request


class CreateUser(Request[Empty], code=RequestCode.AUTH_CREATE_USER):
    """Carries a UserInfo."""

    username: str


class UpdateUser(Request[Empty], code=RequestCode.AUTH_UPDATE_USER):
    """Carries a UserInfo."""

    username: str


class DeleteUser(Request[Empty], code=RequestCode.AUTH_DELETE_USER):
    username: str


class GetUser(Request[Empty], code=RequestCode.AUTH_GET_USER):
    """Answered with a UserInfo, or without a body if there is no such user."""

    username: str


class ListUsers(Request[Empty], code=RequestCode.AUTH_LIST_USER):
    """Answered with an array of UserInfo, or without a body if there is none."""

    filter: str | None = None


class CreateAcl(Request[Empty], code=RequestCode.AUTH_CREATE_ACL):
    """Carries an AclInfo. A subject is such as `User:somebody`."""

    subject: str


class UpdateAcl(Request[Empty], code=RequestCode.AUTH_UPDATE_ACL):
    """Carries an AclInfo."""

    subject: str


class DeleteAcl(Request[Empty], code=RequestCode.AUTH_DELETE_ACL):
    subject: str
    policy_type: str | None = None
    resource: str | None = None


class GetAcl(Request[Empty], code=RequestCode.AUTH_GET_ACL):
    """Answered with an AclInfo, or without a body if there is none."""

    subject: str


class ListAcls(Request[Empty], code=RequestCode.AUTH_LIST_ACL):
    """Answered with an array of AclInfo, or without a body if there is none."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class UpdateAndCreateAclConfig(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_ACL_CONFIG):
    """One account in the file of a broker of 4.x. Permissions are such as `orders=PUB|SUB`, parted by commas."""

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
    """Addresses that are let in without keys, parted by commas."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class AclVersion(Header, kw_only=True):
    """`all_acl_file_version` has in JSON the DataVersion of each file by its path."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class GetBrokerClusterAclInfo(Request[AclVersion], code=RequestCode.GET_BROKER_CLUSTER_ACL_INFO):
    pass
