"""The client features of the table, and two brokers with a NameServer to test them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from kerolox.wire.bodies.topics import Perm
from kerolox.wire.headers.broker import UpdateAndCreateSubscriptionGroup, UpdateAndCreateTopic
from kerolox.wire.headers.messages import QueryMessage
from kerolox.wire.headers.offsets import ResetOffset, UpdateConsumerOffset
from tests.apache import servers
from tests.apache.processes import Process
from tests.compat import name_servers
from tests.compat.brokers import kerolox_broker

# In the order of the table.
FEATURES = (
    "send sync",
    "send async",
    "send oneway",
    "send batch",
    "send ordered",
    "send delayed",
    "send keyed",
    "send compressed",
    "transaction committed",
    "transaction rolled back",
    "transaction unknown, then checked",
    "request-reply",
    "push concurrently",
    "push orderly",
    "pull",
    "lite pull",
    "broadcast",
    "by tags",
    "by SQL92",
    "retry to DLQ",
    "offset reset",
    "rebalancing",
)
QUEUES = 4

# Short delay levels; retries start at the third level.
_QUICK = {
    "messageDelayLevel": "1s 2s 1s 1s 1s 1s 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "enablePropertyFilter": "true",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A NameServer and two brokers."""

    namesrv: str
    brokers: tuple[Process, ...]

    async def make_topics(self, prefix: str, features: Sequence[str] = FEATURES) -> None:
        """Create a topic for each feature, with queues on both brokers."""
        async with Client() as client:
            for feature in features:
                topic = topic_of(prefix, feature)
                request = UpdateAndCreateTopic(
                    topic=topic,
                    default_topic="TBW102",
                    read_queue_nums=QUEUES,
                    write_queue_nums=QUEUES,
                    perm=Perm.READ | Perm.WRITE,
                    topic_filter_type="SINGLE_TAG",
                    topic_sys_flag=0,
                )
                for broker in self.brokers:
                    await client.call(broker.address, request, timeout_seconds=10)

    async def limit_retries(self, group: str, times: int) -> None:
        """Set the maximum number of retries of a group, for clients without such a setting."""
        body = json.dumps({"groupName": group, "retryMaxTimes": times, "retryQueueNums": 1}).encode()
        async with Client() as client:
            for broker in self.brokers:
                await client.call(broker.address, UpdateAndCreateSubscriptionGroup(), body, timeout_seconds=10)

    async def reset(self, topic: str, group: str) -> None:
        """Reset a group to the min offsets like mqadmin: through its consumers, or in the broker if there are none."""
        async with Client() as client:
            for broker in self.brokers:
                request = ResetOffset(topic=topic, group=group, timestamp=0, is_force=True)
                try:
                    await client.call(broker.address, request, timeout_seconds=10)
                except AnswerError as error:
                    if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                        raise
                    await self._reset_on_broker(client, broker.address, topic, group)

    async def _reset_on_broker(self, client: Client, address: str, topic: str, group: str) -> None:
        for queue_id in range(QUEUES):
            update = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=0)
            await client.call(address, update, timeout_seconds=10)

    async def count_by_key(self, topic: str, key: str) -> int:
        """Return the number of messages with a key on both brokers."""
        found = 0
        async with Client() as client:
            for broker in self.brokers:
                request = QueryMessage(topic=topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=2**62)
                try:
                    found += len(decode_all((await client.call(broker.address, request, timeout_seconds=10)).body))
                except AnswerError as error:
                    if error.code != ResponseCode.QUERY_NOT_FOUND:
                        raise
        return found


def topic_of(prefix: str, feature: str) -> str:
    return f"{prefix}_{re.sub('[^A-Za-z0-9]+', '_', feature)}"


@contextlib.contextmanager
def open_pair(version: str) -> Iterator[Pair]:
    """Start our servers, or Apache's of `version` when the tests compare Apache with itself."""
    with contextlib.ExitStack() as stack:
        namesrv = stack.enter_context(name_servers.subject(version)).address
        brokers = []
        for name in ("broker-a", "broker-b"):
            if name_servers.subject_is_apache():
                broker = servers.broker(version, namesrv, name=name, properties=_QUICK)
            else:
                broker = kerolox_broker(namesrv, name=name, properties=_QUICK)
            brokers.append(stack.enter_context(broker))
        yield Pair(namesrv, tuple(brokers))
