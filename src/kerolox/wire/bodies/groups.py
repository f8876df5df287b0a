"""Subscription groups, on the wire and in subscriptionGroup.json."""

from typing import Any

import msgspec

from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.topics import DataVersion, TopicConfig
from kerolox.wire.integers import Int32, Int64


class GroupRetryPolicy(Body):
    customized_retry_policy: dict[str, Any] | None = None
    exponential_retry_policy: dict[str, Any] | None = None
    type: str = "CUSTOMIZED"


class SubscriptionGroupConfig(Body, kw_only=True):
    attributes: dict[str, str] | None = msgspec.field(default_factory=dict)
    broker_id: Int64 = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int32 = 15
    group_name: str
    group_retry_policy: GroupRetryPolicy | None = msgspec.field(default_factory=GroupRetryPolicy)
    group_sys_flag: Int32 = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int32 = 16
    retry_queue_nums: Int32 = 1
    subscription_data_set: list[dict[str, Any]] | None = None
    which_broker_when_consume_slowly: Int64 = 1


class SubscriptionGroupTable(Body):
    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int32]] | None = msgspec.field(default_factory=dict)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = msgspec.field(default_factory=dict)


class SubscriptionGroupList(Body):
    group_config_list: list[SubscriptionGroupConfig]


class TopicConfigList(Body):
    topic_config_list: list[TopicConfig]


class GroupList(Body):
    group_list: list[str]


class GroupForbidden(Body, kw_only=True):
    group: str
    readable: bool
    topic: str
