"""Apache's brokers with ACL enabled: an admin account and, in 4.x, a shop account with few permissions."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager

from tests.apache import servers
from tests.apache.processes import Process

ROOT = {"access_key": "rocketmq-root", "secret_key": "root-12345678"}
SHOP = {"access_key": "rocketmq-shop", "secret_key": "shop-12345678"}
# Credentials for Java's tools: conf/tools.yml.
TOOLS = f"accessKey: {ROOT['access_key']}\nsecretKey: {ROOT['secret_key']}\n"

_PLAIN_ACL = f"""\
globalWhiteRemoteAddresses: []
accounts:
  - accessKey: {ROOT["access_key"]}
    secretKey: {ROOT["secret_key"]}
    admin: true
  - accessKey: {SHOP["access_key"]}
    secretKey: {SHOP["secret_key"]}
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [orders=PUB|SUB, readable=SUB]
    groupPerms: [billing=SUB, stock=SUB, shop=SUB]
"""
_AUTH = "org.apache.rocketmq.auth"
_SETTINGS_5X = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": ROOT["access_key"], "password": ROOT["secret_key"]}),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": ROOT["access_key"], "secretKey": ROOT["secret_key"]}
    ),
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}


def acl_broker(version: str, namesrv: str, *, name: str = "broker-a") -> AbstractContextManager[Process]:
    """Start a broker of this version with ACL enabled."""
    if version.startswith("4."):
        files = {"plain_acl.yml": _PLAIN_ACL}
        return servers.broker(version, namesrv, name=name, properties={"aclEnable": "true"}, files=files)
    return servers.broker(version, namesrv, name=name, properties=_SETTINGS_5X)
