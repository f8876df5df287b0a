"""Producers and consumers, for asyncio.

async with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
    await producer.send(Message("orders", b"..."))
"""

from kerolox.client.errors import ClientError, GroupTaken, NoRoute, RequestTimeout, SendFailed, WrongState
from kerolox.client.hooks import MessageType, SendHook, Sending
from kerolox.client.messages import Message, Received, SendResult, SendStatus
from kerolox.client.options import Options
from kerolox.client.producer.producer import Producer
from kerolox.client.producer.transactions import Decision, TransactionProducer, TransactionResult
from kerolox.errors import KeroloxError, TopicNotFound
from kerolox.message.errors import MessageIllegal
from kerolox.message.sysflag import CompressionType
from kerolox.wire.bodies.queues import MessageQueue

__all__ = [
    "ClientError",
    "CompressionType",
    "Decision",
    "GroupTaken",
    "KeroloxError",
    "Message",
    "MessageIllegal",
    "MessageQueue",
    "MessageType",
    "NoRoute",
    "Options",
    "Producer",
    "Received",
    "RequestTimeout",
    "SendFailed",
    "SendHook",
    "SendResult",
    "SendStatus",
    "Sending",
    "TopicNotFound",
    "TransactionProducer",
    "TransactionResult",
    "WrongState",
]
