"""Users and ACL policies (5.3 and later)."""

from kerolox.wire.bodies.body import Body


class UserInfo(Body, kw_only=True):
    """In an update, None leaves a member unchanged. Brokers mask the password in responses."""

    password: str | None = None
    # enable, disable
    user_status: str | None = None
    # Super, Normal
    user_type: str | None = None
    username: str | None = None


class PolicyEntry(Body, kw_only=True):
    """Allows or denies actions on a resource such as `Topic:orders`, `Group:shop*` or `Cluster:*`."""

    # All, Pub, Sub, Create, Update, Delete, Get, List
    actions: list[str]
    # Allow, Deny
    decision: str
    resource: str
    # Addresses or networks; None or empty means any.
    source_ips: list[str] | None = None


class Policy(Body, kw_only=True):
    entries: list[PolicyEntry]
    # Custom, Default
    policy_type: str | None = None


class AclInfo(Body, kw_only=True):
    policies: list[Policy]
    subject: str | None = None
