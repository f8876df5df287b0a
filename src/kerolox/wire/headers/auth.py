"""Users of a broker, and what they may do (5.3 and later)."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Request


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
