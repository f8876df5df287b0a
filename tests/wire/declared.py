"""Body classes of the NameServer's requests and responses, by request code."""

from __future__ import annotations

from typing import Any

from kerolox.codes import RequestCode, Version
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.registration import RegisterBrokerBody, compress, decompress
from kerolox.wire.bodies.routes import BrokerMemberGroupBody, ClusterInfo, TopicRouteData
from kerolox.wire.bodies.topics import DataVersion, TopicConfigTable, TopicList
from kerolox.wire.command import Command
from kerolox.wire.header import Request, ext_text
from kerolox.wire.headers import namesrv

REQUESTS: dict[int, type[Request[Any]]] = {
    kind.code: kind
    for kind in vars(namesrv).values()
    if isinstance(kind, type) and issubclass(kind, Request) and kind is not Request
}

REQUEST_BODIES: dict[int, type[Body]] = {
    RequestCode.REGISTER_BROKER: RegisterBrokerBody,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: TopicRouteData,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
}

ANSWER_BODIES: dict[int, type[Body]] = {
    RequestCode.REGISTER_BROKER: KVTable,
    RequestCode.GET_KVLIST_BY_NAMESPACE: KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: TopicRouteData,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicList,
    RequestCode.GET_TOPICS_BY_CLUSTER: TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: TopicList,
    RequestCode.GET_UNIT_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: TopicList,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.GET_BROKER_MEMBER_GROUP: BrokerMemberGroupBody,
}


def request_body(code: int, version: int) -> type[Body] | None:
    if code == RequestCode.REGISTER_BROKER and version < Version.V3_0_11:
        return TopicConfigTable
    return REQUEST_BODIES.get(code)


def is_compressed(command: Command) -> bool:
    return command.code == RequestCode.REGISTER_BROKER and ext_text(command.ext).get("compressed") == "true"


def decoded_request(command: Command) -> Body | None:
    """Return the decoded request body, or None if its code has no body."""
    if is_compressed(command):
        return decompress(command.body, command.version)
    kind = request_body(command.code, command.version)
    return None if kind is None else kind.decode(command.body)


def encoded_request(command: Command, body: Body) -> bytes:
    """Return the body as a sender of that command writes it."""
    if is_compressed(command):
        assert isinstance(body, RegisterBrokerBody)
        return compress(body, command.version)
    return body.encode()
