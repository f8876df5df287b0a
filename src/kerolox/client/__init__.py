"""Producers and consumers for asyncio.

async with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
    await producer.send(Message("orders", b"..."))

async with PushConsumer("billing", handle, topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
    await consumer.closed()
"""

from kerolox.client.consumer.group import allocation as strategies
from kerolox.client.consumer.group.allocation import Strategy
from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.group.rebalance import MessageModel
from kerolox.client.consumer.group.subscriptions import Sql92
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.consumer.push import PushConsumer
from kerolox.client.consumer.simple import SimpleConsumer
from kerolox.client.errors import ClientError, GroupTaken, NoRoute, RequestTimeout, SendFailed, WrongState
from kerolox.client.hooks import BeforeConsumeHook, ConsumeHook, Consuming, MessageType, SendHook, Sending
from kerolox.client.messages import Message, Received, SendResult, SendStatus
from kerolox.client.options import Options
from kerolox.client.producer.producer import Producer
from kerolox.client.producer.transactions import Decision, TransactionProducer, TransactionResult
from kerolox.client.tracing.tracer import Tracing
from kerolox.errors import KeroloxError, NoPermission, TopicNotFound
from kerolox.message.errors import MessageIllegal
from kerolox.message.sysflag import CompressionType
from kerolox.wire.bodies.queues import MessageQueue

__all__ = [
    "BeforeConsumeHook",
    "ClientError",
    "CompressionType",
    "ConsumeFrom",
    "ConsumeHook",
    "Consumed",
    "Consuming",
    "Decision",
    "GroupTaken",
    "KeroloxError",
    "Message",
    "MessageIllegal",
    "MessageModel",
    "MessageQueue",
    "MessageType",
    "NoPermission",
    "NoRoute",
    "Options",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Received",
    "RequestTimeout",
    "SendFailed",
    "SendHook",
    "SendResult",
    "SendStatus",
    "Sending",
    "SimpleConsumer",
    "Sql92",
    "Strategy",
    "TopicNotFound",
    "Tracing",
    "TransactionProducer",
    "TransactionResult",
    "WrongState",
    "strategies",
]
