"""Blocking producers and consumers, for code without an event loop, with the same names as in `kerolox.client`.

with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
    producer.send(Message("orders", b"..."))

with PullConsumer("billing", topics="orders", namesrv_addr="127.0.0.1:9876") as consumer:
    for message in consumer:
        ...

They wrap those of `kerolox.client`, which run on an event loop in a background thread. All are thread-safe.
"""

from kerolox.client import (
    BeforeConsumeHook,
    ClientError,
    CompressionType,
    Consumed,
    ConsumeFrom,
    ConsumeHook,
    Consuming,
    Decision,
    GroupTaken,
    KeroloxError,
    Message,
    MessageIllegal,
    MessageModel,
    MessageQueue,
    MessageType,
    NoPermission,
    NoRoute,
    Options,
    Received,
    RequestTimeout,
    SendFailed,
    SendHook,
    Sending,
    SendResult,
    SendStatus,
    Sql92,
    Strategy,
    TopicNotFound,
    TransactionResult,
    WrongState,
    strategies,
)
from kerolox.client.blocking.consumers import PullConsumer, PushConsumer, SimpleConsumer
from kerolox.client.blocking.producers import Producer, TransactionProducer
from kerolox.client.blocking.tracing import Tracing

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
