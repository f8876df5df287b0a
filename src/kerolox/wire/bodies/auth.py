"""Users and policies, as brokers of 5.3 and later are told of them."""

from kerolox.wire.bodies.body import Body


class UserInfo(Body, kw_only=True):
    """What is None stays as it is, when a user is changed. Brokers give back no password that can be used."""

    password: str | None = None
    # enable, disable
    user_status: str | None = None
    # Super, Normal
    user_type: str | None = None
    username: str | None = None


class PolicyEntry(Body, kw_only=True):
    """What is allowed, or denied, with a resource such as `Topic:orders`, `Group:shop*` or `Cluster:*`."""

    # All, Pub, Sub, Create, Update, Delete, Get, List
    actions: list[str]
    # Allow, Deny
    decision: str
    resource: str
    # Addresses or networks; none are all.
    source_ips: list[str] | None = None


class Policy(Body, kw_only=True):
    entries: list[PolicyEntry]
    # Custom, Default
    policy_type: str | None = None


class AclInfo(Body, kw_only=True):
    policies: list[Policy]
    subject: str | None = None
